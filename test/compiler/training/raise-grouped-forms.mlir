// RUN: polyrank-opt %s --raise-composites -split-input-file | FileCheck %s

// The other way round, with rows that have their index behind; the matrix is read
// as it is.
// CHECK-LABEL: func.func @forward
// CHECK: %[[R:.+]] = graph.transpose %{{.+}} {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
// CHECK: graph.grouped_matmul %[[R]], %arg0
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<1x4x6xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x1x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x4x8xf32>
  %m = graph.matmul %x, %p batch [2] x [0] contract [1] x [1] : (tensor<1x4x6xf32>, tensor<6x4x8xf32>) -> tensor<6x1x8xf32>
  return %m : tensor<6x1x8xf32>
}

// -----

// Each matrix multiplies three rows: those are no groups of rows.
// CHECK-LABEL: func.func @forward
// CHECK: graph.gather
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x3x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x3x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x4x8xf32>
  %m = graph.matmul %x, %p batch [0] x [0] contract [2] x [1] : (tensor<6x3x4xf32>, tensor<6x4x8xf32>) -> tensor<6x3x8xf32>
  return %m : tensor<6x3x8xf32>
}

// -----

// What is picked is no matrix, but a column of each.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<4x3x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 1 : i64, batch_dims = 0 : i64} : (tensor<4x3x8xf32>, tensor<6xi64>) -> tensor<4x6x8xf32>
  %m = graph.matmul %x, %p batch [0] x [1] contract [1] x [0] : (tensor<6x4xf32>, tensor<4x6x8xf32>) -> tensor<6x8xf32>
  return %m : tensor<6x8xf32>
}

// -----

// The index is no dim of the batch: all rows take all that was picked.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<4x1xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x8x1xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x4x8xf32>
  %m = graph.matmul %p, %x batch [] x [] contract [1] x [0] : (tensor<6x4x8xf32>, tensor<4x1xf32>) -> tensor<6x8x1xf32>
  return %m : tensor<6x8x1xf32>
}

// -----

// Where the index is the padding index the matrix gets no gradient.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64, padding_index = 1 : i64} : (tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x4x8xf32>
  %m = graph.matmul %x, %p batch [0] x [0] contract [1] x [1] : (tensor<6x4xf32>, tensor<6x4x8xf32>) -> tensor<6x8xf32>
  return %m : tensor<6x8xf32>
}

// -----

// Rows of a table are no matrices.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
  %m = graph.matmul %x, %p batch [0] x [0] contract [1] x [1] : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6xf32>
  return %m : tensor<6xf32>
}

// -----

// Two indices pick a block of matrices.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6x1xi64> {graph.role = #graph.input<"i">}) -> (tensor<6x4x1x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4x8xf32>, tensor<6x1xi64>) -> tensor<6x1x4x8xf32>
  %o = graph.reshape %x : (tensor<6x4xf32>) -> tensor<6x4x1xf32>
  %m = graph.matmul %o, %p batch [0] x [0] contract [2] x [1] : (tensor<6x4x1xf32>, tensor<6x1x4x8xf32>) -> tensor<6x4x4x8xf32>
  %y = graph.slice %m {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 6, 4, 1, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<6x4x4x8xf32>) -> tensor<6x4x1x8xf32>
  return %y : tensor<6x4x1x8xf32>
}

// -----

// A sum over all of a matrix is no product with one.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul
func.func @forward(%w: tensor<3x4x8xf32> {graph.role = #graph.input<"w">}, %x: tensor<6x4x8xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi64> {graph.role = #graph.input<"i">}) -> (tensor<6xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x4x8xf32>
  %m = graph.matmul %x, %p batch [0] x [0] contract [1, 2] x [1, 2] : (tensor<6x4x8xf32>, tensor<6x4x8xf32>) -> tensor<6xf32>
  return %m : tensor<6xf32>
}
