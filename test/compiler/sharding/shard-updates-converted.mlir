// RUN: polyrank-opt %s --shard-updates="threshold=1 stage=3" 2>/dev/null | FileCheck %s --check-prefixes=CHECK,USE
// RUN: polyrank-opt %s --shard-updates="threshold=1 stage=3 gather=step" 2>/dev/null | FileCheck %s --check-prefixes=CHECK,STEP
// RUN: polyrank-opt %s --evaluate=distributed > %t.whole
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.whole -
// RUN: polyrank-opt %s --partition-stage="zero=3 zero-gather=step threshold=1" --evaluate=distributed 2>/dev/null | diff %t.whole -
// A parameter that the model itself converts in each microbatch: a device
// converts its part. If the part is gathered once a step, it is converted once.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!narrow = tensor<4x4xbf16, #sharding.layout<#mesh, [{}, {}]>>
!x2 = tensor<2x6x4xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!xn = tensor<6x4xbf16, #sharding.layout<#mesh, [{"data"}, {}]>>
!ls = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
!l = tensor<f32, #sharding.layout<#mesh, []>>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:arg0]]: tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.parameter<@w>}
// USE: graph.microbatches
// CHECK: %[[PART:.*]] = graph.convert %[[W]] : {{.*}} -> tensor<4x4xbf16, #sharding.layout<#mesh, [{"data"}, {}]>>
// STEP: %[[WHOLE:.*]] = sharding.reshard %[[PART]] {{.*}} -> tensor<4x4xbf16, #sharding.layout<#mesh, [{}, {}]>>
// STEP: graph.microbatches
// USE: %[[WHOLE:.*]] = sharding.reshard %[[PART]] {{.*}} -> tensor<4x4xbf16, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: graph.matmul %{{.*}}, %[[WHOLE]]
func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %x: !x2 {graph.role = #graph.input<"x">}) -> (!w {graph.role = #graph.next<0>}, !l {graph.role = #graph.output<"loss">}) {
  %s = graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64, #sharding.layout<#mesh, []>>, %xb: !x):
    %xn = graph.convert %xb : (!x) -> !xn
    %n = graph.convert %w : (!w) -> !narrow
    %y = graph.matmul %xn, %n batch [] x [] contract [1] x [0] : (!xn, !narrow) -> !xn
    %f = graph.convert %y : (!xn) -> !x
    %l = graph.reduce sum %f over [0, 1] : (!x) -> !ls
    graph.yield sum(%l) carry() : !ls
  } : (!x2) -> (!ls)
  %loss = sharding.reshard %s {why = #sharding.reason<constraint = "loss">} : (!ls) -> !l
  return %w, %loss : !w, !l
}
graph.parameter @w : tensor<4x4xf32> at "w.bin" offset 0 length 64
