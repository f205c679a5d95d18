// Splits of a product become views of its weight.

// RUN: polyrank-opt %s -split-input-file --find-logical-parameters | FileCheck %s

// Queries, keys and values of one size are one dim of one parameter, their heads
// another one.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x3x2x4xf32> {graph.role = #graph.parameter<@qkv view [0, 24, 8, 4, 1]>}
// CHECK-NEXT: graph.matmul %{{.+}}, %[[W]] batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x3x2x4xf32>) -> tensor<3x3x2x4xf32>
graph.parameter @qkv : tensor<4x24xf32> at "m.onnx" offset 0 length 384 {trainable}
func.func @forward(%w: tensor<4x24xf32> {graph.role = #graph.parameter<@qkv>}, %x: tensor<3x4xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x2x4xf32> {graph.role = #graph.output<"q">}, tensor<3x2x4xf32> {graph.role = #graph.output<"k">}, tensor<3x2x4xf32> {graph.role = #graph.output<"v">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x24xf32>) -> tensor<3x24xf32>
  %q = graph.slice %0 {starts = array<i64: 0, 0>, limits = array<i64: 3, 8>, strides = array<i64: 1, 1>} : (tensor<3x24xf32>) -> tensor<3x8xf32>
  %k = graph.slice %0 {starts = array<i64: 0, 8>, limits = array<i64: 3, 16>, strides = array<i64: 1, 1>} : (tensor<3x24xf32>) -> tensor<3x8xf32>
  %v = graph.slice %0 {starts = array<i64: 0, 16>, limits = array<i64: 3, 24>, strides = array<i64: 1, 1>} : (tensor<3x24xf32>) -> tensor<3x8xf32>
  %qh = graph.reshape %q : (tensor<3x8xf32>) -> tensor<3x2x4xf32>
  %kh = graph.reshape %k : (tensor<3x8xf32>) -> tensor<3x2x4xf32>
  %vh = graph.reshape %v : (tensor<3x8xf32>) -> tensor<3x2x4xf32>
  return %qh, %kh, %vh : tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>
}

// -----

// Three heads of queries and one of keys are parameters of their own, which
// together are the stored one.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<4x3x4xf32> {graph.role = #graph.parameter<@qkv view [0, 16, 4, 1]>}
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<4x4xf32> {graph.role = #graph.parameter<@qkv view [12, 16, 1]>}
// CHECK-DAG: graph.matmul %{{.+}}, %[[Q]] {{.*}} -> tensor<3x3x4xf32>
// CHECK-DAG: graph.matmul %{{.+}}, %[[K]] {{.*}} -> tensor<3x4xf32>
graph.parameter @qkv : tensor<4x16xf32> at "m.onnx" offset 0 length 256 {trainable}
func.func @forward(%w: tensor<4x16xf32> {graph.role = #graph.parameter<@qkv>}, %x: tensor<3x4xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x3x4xf32> {graph.role = #graph.output<"q">}, tensor<3x1x4xf32> {graph.role = #graph.output<"k">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x16xf32>) -> tensor<3x16xf32>
  %q = graph.slice %0 {starts = array<i64: 0, 0>, limits = array<i64: 3, 12>, strides = array<i64: 1, 1>} : (tensor<3x16xf32>) -> tensor<3x12xf32>
  %k = graph.slice %0 {starts = array<i64: 0, 12>, limits = array<i64: 3, 16>, strides = array<i64: 1, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
  %qh = graph.reshape %q : (tensor<3x12xf32>) -> tensor<3x3x4xf32>
  %kh = graph.reshape %k : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
  return %qh, %kh : tensor<3x3x4xf32>, tensor<3x1x4xf32>
}

// -----

// The whole product is an output too: the weight stays as it is stored.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<4x16xf32> {graph.role = #graph.parameter<@w>}
// CHECK: graph.matmul %{{.+}} -> tensor<3x16xf32>
// CHECK: graph.reshape
graph.parameter @w : tensor<4x16xf32> at "m.onnx" offset 0 length 256 {trainable}
func.func @forward(%w: tensor<4x16xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<3x4xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x4x4xf32> {graph.role = #graph.output<"q">}, tensor<3x16xf32> {graph.role = #graph.output<"all">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x16xf32>) -> tensor<3x16xf32>
  %qh = graph.reshape %0 : (tensor<3x16xf32>) -> tensor<3x4x4xf32>
  return %qh, %0 : tensor<3x4x4xf32>, tensor<3x16xf32>
}

// -----

// Halves that are as long as there are of them: the first one, which ends where
// the new dim does, is a part and not the whole.

// CHECK-LABEL: func.func @forward
// CHECK: graph.slice %{{.+}} {limits = array<i64: 3, 1, 2>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x2xf32>) -> tensor<3x1x2xf32>
// CHECK: graph.slice %{{.+}} {limits = array<i64: 3, 2, 2>, starts = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x2xf32>) -> tensor<3x1x2xf32>
graph.parameter @w : tensor<4x4xf32> at "m.onnx" offset 0 length 64 {trainable}
func.func @forward(%w: tensor<4x4xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<3x4xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x2xf32> {graph.role = #graph.output<"a">}, tensor<3x2xf32> {graph.role = #graph.output<"b">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %1 = graph.add %0, %0 : tensor<3x4xf32>
  %a = graph.slice %1 {starts = array<i64: 0, 0>, limits = array<i64: 3, 2>, strides = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %b = graph.slice %1 {starts = array<i64: 0, 2>, limits = array<i64: 3, 4>, strides = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  return %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Heads are made first and then cut into unequal parts, also behind a transpose:
// three of queries, one of keys.

// CHECK-LABEL: func.func @forward
// CHECK-DAG: tensor<4x3x4xf32> {graph.role = #graph.parameter<@w view [0, 16, 4, 1]>}
// CHECK-DAG: tensor<4x4xf32> {graph.role = #graph.parameter<@w view [12, 16, 1]>}
// CHECK-NOT: graph.slice
graph.parameter @w : tensor<4x16xf32> at "m.onnx" offset 0 length 256 {trainable}
func.func @forward(%w: tensor<4x16xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<3x4xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x3x4xf32> {graph.role = #graph.output<"q">}, tensor<1x3x4xf32> {graph.role = #graph.output<"k">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x16xf32>) -> tensor<3x16xf32>
  %1 = graph.reshape %0 : (tensor<3x16xf32>) -> tensor<3x4x4xf32>
  %q = graph.slice %1 {starts = array<i64: 0, 0, 0>, limits = array<i64: 3, 3, 4>, strides = array<i64: 1, 1, 1>} : (tensor<3x4x4xf32>) -> tensor<3x3x4xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
  %k = graph.slice %2 {starts = array<i64: 3, 0, 0>, limits = array<i64: 4, 3, 4>, strides = array<i64: 1, 1, 1>} : (tensor<4x3x4xf32>) -> tensor<1x3x4xf32>
  return %q, %k : tensor<3x3x4xf32>, tensor<1x3x4xf32>
}
