// RUN: polyrank-opt %s --partition-stage="zero=0 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=ZERO
// RUN: polyrank-opt %s --partition-stage="zero=1 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --partition-stage="zero=2 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=TWO
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=THREE
// RUN: polyrank-opt %s --partition-stage="zero=0 threshold=1" --evaluate=distributed 2>/dev/null > %t.0
// RUN: polyrank-opt %s --partition-stage="zero=1 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.0 -
// RUN: polyrank-opt %s --partition-stage="zero=2 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.0 -
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.0 -
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" --localize --evaluate=ranks 2>/dev/null | FileCheck %s --check-prefix=RANKS
// The example of docs/zero.md.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!xs = tensor<2x6x4xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!i = tensor<i64, #sharding.layout<#mesh, []>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!ls = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>

func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %m: !w {graph.role = #graph.state<"momentum" of @w>}, %xs: !xs {graph.role = #graph.input<"x">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !s {graph.role = #graph.output<"loss">}) {
  %dw, %losses = graph.microbatches count = 2 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %z = graph.matmul %y, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %loss = graph.reduce sum %z over [0, 1] : (!x) -> !ls
    %seed = graph.seed 1.0 : !s
    %dz = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
    %dw2 = graph.matmul %y, %dz batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
    %dy = graph.matmul %dz, %w batch [] x [] contract [1] x [1] : (!x, !w) -> !x
    %dw1 = graph.matmul %x, %dy batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
    %dwi = graph.add %dw1, %dw2 : !dw
    graph.yield sum(%dwi, %loss) carry() : !dw, !ls
  } : (!xs) -> (!dw, !ls)
  %whole = sharding.reshard %dw : (!dw) -> !w
  %g = graph.gradient %whole of @w : !w
  %n = graph.add %m, %g : !w
  %new = graph.sub %w, %n : !w
  %l = sharding.reshard %losses : (!ls) -> !s
  return %new, %n, %l : !w, !w, !s
}

// ZERO: %[[SUM:.*]]:2 = graph.microbatches
// ZERO: %[[G:.*]] = sharding.all_reduce %[[SUM]]#0
// ZERO: %[[N:.*]] = graph.add %arg1, %[[G]]
// ZERO: %[[NEW:.*]] = graph.sub %arg0, %[[N]]
// ZERO: return %[[NEW]], %[[N]]

// ONE: %arg1: tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// ONE: %[[SUM:.*]]:2 = graph.microbatches
// ONE: %[[G:.*]] = sharding.reduce_scatter %[[SUM]]#0
// ONE: %[[N:.*]] = graph.add %arg1, %[[G]]
// ONE: %[[NEW:.*]] = graph.sub %{{.*}}, %[[N]]
// ONE: %[[ALL:.*]] = sharding.all_gather %[[NEW]]
// ONE: return %[[ALL]], %[[N]]

// TWO: %[[SUM:.*]]:2 = graph.microbatches
// TWO: %[[G:.*]] = sharding.reduce_scatter
// TWO: graph.yield sum(%[[G]],
// TWO: %[[N:.*]] = graph.add %arg1, %[[SUM]]#0
// TWO: sharding.all_gather

// THREE: %arg0: tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// THREE: graph.microbatches
// THREE: %[[W:.*]] = sharding.all_gather %arg0
// THREE: graph.matmul %{{.*}}, %[[W]]
// THREE: %[[DZ:.*]] = graph.broadcast
// THREE: %[[LATER:.*]] = graph.after %arg0, %[[DZ]]
// THREE: %[[AGAIN:.*]] = sharding.all_gather %[[LATER]]
// THREE: graph.matmul %[[DZ]], %[[AGAIN]]
// THREE: sharding.reduce_scatter
// THREE: %[[NEW:.*]] = graph.sub %arg0
// THREE-NOT: all_gather
// THREE: return %[[NEW]]

// RANKS: result0: tensor<4x4xf32>
