// RUN: polyrank-opt %s --evaluate=global > %t.before
// RUN: polyrank-opt %s --lower-precision="precision=bf16" --evaluate=global 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --lower-precision="precision=bf16" 2>/dev/null | FileCheck %s
// The example of docs/precision.md.

!x = tensor<4x8xf32>
!w = tensor<8x3xf32>
!y = tensor<4x3xf32>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x3xf32> {{.*}}, %[[X:[a-z0-9]+]]: tensor<4x8xf32>
func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %b: tensor<3xf32> {graph.role = #graph.parameter<@b>}, %x: !x {graph.role = #graph.input<"x">})
    -> (!w {graph.role = #graph.next<0>}, tensor<3xf32> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  %bias = graph.broadcast %b {dims = array<i64: 1>} : (tensor<3xf32>) -> !y
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !y
  %z = graph.add %y, %bias : !y
  %loss = graph.reduce sum %z over [0, 1] : (!y) -> tensor<f32>
  %seed = graph.seed 1.0 : tensor<f32>
  %dz = graph.broadcast %seed {dims = array<i64>} : (tensor<f32>) -> !y
  %dw = graph.matmul %x, %dz batch [] x [] contract [0] x [0] : (!x, !y) -> !w
  %g = graph.gradient %dw of @w : !w
  %new = graph.sub %w, %g : !w
  return %new, %b, %loss : !w, tensor<3xf32>, tensor<f32>
}

// CHECK: %[[W16:.+]] = graph.convert %[[W]] : (tensor<8x3xf32>) -> tensor<8x3xbf16>
// CHECK: %[[X16:.+]] = graph.convert %[[X]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: %[[Y:.+]] = graph.matmul %[[X16]], %[[W16]] {{.*}} -> tensor<4x3xbf16>
// CHECK: %[[Y32:.+]] = graph.convert %[[Y]]
// CHECK: %[[SUM:.+]] = graph.add %[[Y32]], %{{.+}} : tensor<4x3xf32>
// CHECK: graph.convert %[[SUM]] : (tensor<4x3xf32>) -> tensor<4x3xbf16>
// CHECK: %[[DW:.+]] = graph.matmul %[[X16]], %{{.+}} {{.*}} -> tensor<8x3xf32>
// CHECK: graph.gradient %[[DW]] of @w : tensor<8x3xf32>
