// RUN: polyrank-opt %s --evaluate=distributed > %t.before
// RUN: polyrank-opt %s --recompute="what=h.0" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --recompute="what=h.0" 2>/dev/null | FileCheck %s
// The example of docs/recompute.md.

#mesh = #sharding.mesh<["data"=2]>
!x = tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!ls = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>

func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %x: !x {graph.role = #graph.input<"x">}) -> (!s {graph.role = #graph.output<"loss">}, !w {graph.role = #graph.output<"dw">}) {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] {graph.scope = "h.0"} : (!x, !w) -> !x
  %a = graph.silu %y {graph.scope = "h.0"} : !x
  %z = graph.mul %a, %y {graph.scope = "h.0"} : !x
  %part = graph.reduce sum %z over [0, 1] : (!x) -> !ls
  %loss = sharding.reshard %part : (!ls) -> !s
  %seed = graph.seed 1.0 : !s
  %dz = graph.broadcast %seed {dims = array<i64>, graph.origin = "loss"} : (!s) -> !x
  %da = graph.mul %dz, %y {graph.origin = "mul"} : !x
  %dy1 = graph.silu_grad %da, %y {graph.origin = "silu"} : !x
  %dy2 = graph.mul %dz, %a {graph.origin = "mul"} : !x
  %dy = graph.add %dy1, %dy2 {graph.origin = "matmul"} : !x
  %dwp = graph.matmul %x, %dy batch [] x [] contract [0] x [0] {graph.origin = "matmul"} : (!x, !x) -> !dw
  %dw = sharding.reshard %dwp : (!dw) -> !w
  return %loss, %dw : !s, !w
}

// CHECK: %[[Y:.*]] = graph.matmul %[[X:arg1]], %[[W:arg0]]
// CHECK: graph.silu %[[Y]]
// CHECK: %[[DZ:.*]] = graph.broadcast
// CHECK: %[[LATER:.*]] = graph.after %[[X]], %[[DZ]]
// CHECK: %[[AGAIN:.*]] = graph.matmul %[[LATER]], %[[W]]
// CHECK: graph.mul %[[DZ]], %[[AGAIN]]
// CHECK: %[[A:.*]] = graph.silu %[[AGAIN]]
// CHECK: graph.mul %[[DZ]], %[[A]]
