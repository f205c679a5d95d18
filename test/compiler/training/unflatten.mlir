// Merged rows go back to dims of their own.

// RUN: polyrank-opt %s -split-input-file --unflatten | FileCheck %s

// The merge moves down to the reshape that undoes it.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.reshape
// CHECK: graph.matmul %{{.+}}, %{{.+}} batch [] x [] contract [2] x [0] : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
// CHECK: graph.broadcast %{{.+}} {dims = array<i64: 2>}
// CHECK: %[[Y:.+]] = graph.add %{{.+}}, %{{.+}} : tensor<2x3x5xf32>
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %w: tensor<4x5xf32> {graph.role = #graph.input<"w">}, %b: tensor<5xf32> {graph.role = #graph.input<"b">}) -> (tensor<2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = graph.matmul %0, %w batch [] x [] contract [1] x [0] : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<5xf32>) -> tensor<6x5xf32>
  %3 = graph.add %1, %2 : tensor<6x5xf32>
  %4 = graph.reshape %3 : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  return %4 : tensor<2x3x5xf32>
}

// -----

// What reaches an output is merged there.

// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[Y:.+]] = graph.matmul %{{.+}} -> tensor<2x3x5xf32>
// CHECK-NEXT: %[[FLAT:.+]] = graph.reshape %[[Y]] : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
// CHECK-NEXT: return %[[FLAT]]
func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %w: tensor<4x5xf32> {graph.role = #graph.input<"w">}) -> (tensor<6x5xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = graph.matmul %0, %w batch [] x [] contract [1] x [0] : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}

// -----

// Heads times width in front of a projection whose weight is no parameter:
// nothing could be viewed otherwise.

// CHECK-LABEL: func.func @forward
// CHECK-NEXT: graph.reshape %{{.+}} : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
// CHECK-NEXT: graph.matmul
func.func @forward(%x: tensor<3x2x4xf32> {graph.role = #graph.input<"x">}, %w: tensor<8x5xf32> {graph.role = #graph.input<"w">}) -> (tensor<3x5xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.reshape %x : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
  %1 = graph.matmul %0, %w batch [] x [] contract [1] x [0] : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
