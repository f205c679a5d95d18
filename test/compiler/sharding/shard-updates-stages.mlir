// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=2" 2>/dev/null | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=2 accumulate=full" 2>/dev/null | FileCheck %s --check-prefixes=FULL
// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=3" 2>/dev/null | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=3 gather=step" 2>/dev/null | FileCheck %s --check-prefixes=STEP
// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=3 gather=keep=w,odd" 2>/dev/null | FileCheck %s --check-prefixes=KEEP
// RUN: polyrank-opt %s --evaluate=global | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --partition-stage="zero=2 threshold=15" --evaluate=distributed 2>/dev/null | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=15" --evaluate=distributed 2>/dev/null | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=15" --localize --evaluate=ranks 2>/dev/null | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --partition-stage="zero=3 zero-gather=step zero-accumulate=full threshold=15" --localize --evaluate=ranks 2>/dev/null | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --shard-updates="threshold=15 stage=3" 2>&1 | FileCheck %s --check-prefix=REMARK
// ZeRO stages 2 and 3: sums of gradients, and parameters, in parts.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!wt = tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!odd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!x2 = tensor<2x6x8xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x8xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!x7 = tensor<6x7xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!y = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!dw = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!i = tensor<i64, #sharding.layout<#mesh, []>>
!ls = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
!l = tensor<f32, #sharding.layout<#mesh, []>>

// A trained parameter; what moves it is repeated where it is gathered. A frozen
// one of 7 rows is a row, and needs no second gather: the backward has no use of
// it.
// REMARK: the updates of 1 parameter are split over data: each device keeps one of 2 parts of their optimizer state, their gradients and themselves (--zero 0 keeps all)
// REMARK: 1 parameter that is not trained is split over data: each device keeps one of 2 parts of it

// VALUE: @step
// VALUE: result0: tensor<8x4xf32> [-0.853643, -1.15467, -1.69179, -0.77923,
// VALUE: result1: tensor<8x4xf32> [0.904602, 0.914011, 1.35149, 0.811724,
// VALUE: result2: tensor<{{.*}}xf32> [0.731919, 0.297929,
// VALUE: loss: tensor<f32> [-15.2149]
// CHECK-LABEL: func.func @step
// TWO-SAME: %[[W:arg0]]: tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.parameter<@w>}
// THREE-SAME: %[[W:arg0]]: tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.parameter<@w>}
// CHECK-SAME: tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.state<"momentum" of @w>}
// TWO-SAME: tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.parameter<@odd>}
// THREE-SAME: %[[O:arg2]]: tensor<28xf32, #sharding.layout<#mesh, [{"data"}]>> {graph.role = #graph.parameter<@odd view [0, 1]>}
// CHECK: graph.microbatches
// THREE: %[[WHOLE:.*]] = sharding.reshard %[[W]] {{.*}}constraint = "each device over data updates its part (--zero 3)"
// THREE: %[[T:.*]] = graph.transpose %[[WHOLE]]
// THREE: graph.matmul %{{.*}}, %[[T]]
// THREE: %[[ROW:.*]] = sharding.reshard %[[O]]
// THREE: %[[ALL:.*]] = graph.reshape %[[ROW]] {{.*}} -> tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// THREE: graph.reduce sum %[[ALL]]
// THREE: graph.seed
// THREE: %[[DY:.*]] = graph.broadcast
// THREE: %[[AFTER:.*]] = graph.after %[[W]], %[[DY]]
// THREE: %[[AGAIN:.*]] = sharding.reshard %[[AFTER]]
// THREE: %[[T2:.*]] = graph.transpose %[[AGAIN]]
// THREE: graph.matmul %[[DY]], %[[T2]]
// CHECK: %[[DW:.*]] = graph.matmul {{.*}}partial = sum {"data"}>>
// CHECK: %[[PART:.*]] = sharding.reshard %[[DW]] {why = #sharding.reason<from = "[-,-] partial sum over data", to = "[data,-]", constraint = "batch">}
// CHECK: graph.yield sum(%[[PART]], %{{.*}}) carry() : tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[N:.*]] = graph.add %arg1, %{{.*}}#0
// TWO: %[[NEW:.*]] = graph.sub
// TWO: %[[ALL:.*]] = sharding.reshard %[[NEW]]
// TWO: return %[[ALL]], %[[N]]
// THREE: %[[NEW:.*]] = graph.sub %[[W]], %[[N]]
// THREE: return %[[NEW]], %[[N]], %[[O]]

// Whole sums, which are reduced once.
// FULL-LABEL: func.func @step
// FULL: graph.yield sum(%{{.*}}, %{{.*}}) carry() : tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// FULL: sharding.reshard %{{.*}}#0 {{.*}} to = "[data,-]"

// One gather a step, outside of the microbatches.
// STEP-LABEL: func.func @step
// STEP-DAG: sharding.reshard %arg0
// STEP-DAG: sharding.reshard %arg2
// STEP: graph.microbatches
// STEP-NOT: sharding.reshard %arg
// STEP-NOT: graph.after
// STEP: return

// One gather a microbatch, for forward and backward.
// KEEP-LABEL: func.func @step
// KEEP: graph.microbatches
// KEEP: sharding.reshard %arg0
// KEEP-NOT: sharding.reshard %arg0
// KEEP-NOT: graph.after
// KEEP: return
func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %m: !w {graph.role = #graph.state<"momentum" of @w>}, %odd: !odd {graph.role = #graph.parameter<@odd>}, %x: !x2 {graph.role = #graph.input<"x">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !odd {graph.role = #graph.next<2>}, !l {graph.role = #graph.output<"loss">}) {
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (!w) -> !wt
  %dw, %loss = graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: !i, %xi: !x):
    %y = graph.matmul %xi, %t batch [] x [] contract [1] x [1] : (!x, !wt) -> !y
    %sum = graph.reduce sum %odd over [0, 1] : (!odd) -> !l
    %more = graph.broadcast %sum {dims = array<i64>} : (!l) -> !y
    %z = graph.mul %y, %more : !y
    %loss = graph.reduce sum %z over [0, 1] : (!y) -> !ls
    %s = graph.seed 1.0 : !l
    %dy = graph.broadcast %s {dims = array<i64>} : (!l) -> !y
    %dx = graph.matmul %dy, %t batch [] x [] contract [1] x [0] : (!y, !wt) -> !x
    %dz = graph.mul %dx, %xi : !x
    %dw = graph.matmul %dz, %dy batch [] x [] contract [0] x [0] : (!x, !y) -> !dw
    graph.yield sum(%dw, %loss) carry() : !dw, !ls
  } : (!x2) -> (!dw, !ls)
  %r = sharding.reshard %dw {why = #sharding.reason<constraint = "batch">} : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %n = graph.add %m, %g : !w
  %new = graph.sub %w, %n : !w
  %loss2 = sharding.reshard %loss {why = #sharding.reason<constraint = "batch">} : (!ls) -> !l
  return %new, %n, %odd, %loss2 : !w, !w, !odd, !l
}
