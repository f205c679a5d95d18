// Where the target wants a long sum in parts, one kernel sums these and another
// one their sums. A CPU wants it of 65536 values and more to at most 16 results,
// in the largest equal parts of 512 to 8192 values.

// RUN: polyrank-opt %s --form-kernels | FileCheck %s

// CHECK-LABEL: func.func @long
// CHECK-SAME: %[[X:.*]]: tensor<3x4x30000xf32>
// CHECK: %[[PARTS:.*]] = rank.view %[[X]] offset 0 : (tensor<3x4x30000xf32>) -> tensor<3x15x8000xf32>
// CHECK: %[[SUMS:.*]] = rank.launch @{{.*}}(%[[PARTS]]) : (tensor<3x15x8000xf32>) -> tensor<3x15xf32>
// CHECK: rank.launch @{{.*}}(%[[SUMS]]) : (tensor<3x15xf32>) -> tensor<3xf32>
func.func @long(%x: tensor<3x4x30000xf32>) -> tensor<3xf32> {
  %0 = graph.reduce sum %x over [1, 2] : (tensor<3x4x30000xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @many_results
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @many_results(%x: tensor<17x65536xf32>) -> tensor<17xf32> {
  %0 = graph.reduce sum %x over [1] : (tensor<17x65536xf32>) -> tensor<17xf32>
  return %0 : tensor<17xf32>
}

// CHECK-LABEL: func.func @short
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @short(%x: tensor<65535xf32>) -> tensor<f32> {
  %0 = graph.reduce sum %x over [0] : (tensor<65535xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @prime
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @prime(%x: tensor<65537xf32>) -> tensor<f32> {
  %0 = graph.reduce sum %x over [0] : (tensor<65537xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A sum down columns, and what is no sum.

// CHECK-LABEL: func.func @columns
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @columns(%x: tensor<65536x4xf32>) -> tensor<4xf32> {
  %0 = graph.reduce sum %x over [0] : (tensor<65536x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @max
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @max(%x: tensor<4x65536xf32>) -> tensor<4xf32> {
  %0 = graph.reduce max %x over [1] : (tensor<4x65536xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A sum without results has no parts.

// CHECK-LABEL: func.func @empty
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @empty(%x: tensor<0x4xf32>) -> tensor<0xf32> {
  %0 = graph.reduce sum %x over [1] : (tensor<0x4xf32>) -> tensor<0xf32>
  return %0 : tensor<0xf32>
}
