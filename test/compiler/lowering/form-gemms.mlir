// RUN: polyrank-opt %s --form-gemms | FileCheck %s

// Several leading dims are rows; a transposed weight is a stride.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x4x16xf32>, %w: tensor<32x16xf32>) -> tensor<2x4x32xf32> {
  // CHECK-NEXT: rank.gemm %{{.*}} at [0, 16, 1], %{{.*}} at [0, 1, 16] sizes [8, 32, 16] row 32 batch []
  // CHECK-NEXT: return
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<32x16xf32>) -> tensor<16x32xf32>
  %y = graph.matmul %x, %t batch [] x [] contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x32xf32>) -> tensor<2x4x32xf32>
  return %y : tensor<2x4x32xf32>
}

// Attention's scores from a fused projection: slices, reshapes and transposes
// vanish, the scale is alpha.
// CHECK-LABEL: func.func @scores
func.func @scores(%qkv: tensor<2x4x3x2x8xf32>) -> tensor<2x2x4x4xf32> {
  // CHECK-NEXT: %[[S:.*]] = rank.gemm %[[X:.*]] at [0, 48, 1], %[[X]] at [16, 1, 48] sizes [4, 4, 8] row 4 batch [2, 192, 192, 32, 2, 8, 8, 16] {alpha = 2.500000e-01 : f32}
  // CHECK-NEXT: return %[[S]]
  %q0 = graph.slice %qkv {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 2, 4, 1, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %k0 = graph.slice %qkv {starts = array<i64: 0, 0, 1, 0, 0>, limits = array<i64: 2, 4, 2, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %q1 = graph.reshape %q0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %k1 = graph.reshape %k0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %q = graph.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %k = graph.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %f = graph.constant dense<2.500000e-01> : tensor<2x2x4x4xf32> : tensor<2x2x4x4xf32>
  %r = graph.mul %s, %f : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  return %r : tensor<2x2x4x4xf32>
}

// The only use's transpose is how the result is written; attention's output
// becomes [batch, sequence, heads * width] without a copy.
// CHECK-LABEL: func.func @output
func.func @output(%p: tensor<2x3x4x4xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x4x24xf32> {
  // CHECK-NEXT: rank.gemm %{{.*}} at [0, 4, 1], %{{.*}} at [0, 8, 1] sizes [4, 8, 4] row 24 batch [2, 48, 96, 96, 3, 16, 32, 8] : {{.*}} -> tensor<2x4x24xf32>
  // CHECK-NEXT: return
  %o = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %t = graph.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %r = graph.reshape %t : (tensor<2x4x3x8xf32>) -> tensor<2x4x24xf32>
  return %r : tensor<2x4x24xf32>
}

// A sum of two products happens in the buffer of the first one.
// CHECK-LABEL: func.func @sum
func.func @sum(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[FIRST:.*]] = rank.gemm
  // CHECK-NEXT: rank.gemm %{{.*}}, %{{.*}} add %[[FIRST]]
  // CHECK-NEXT: return
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %s = graph.add %x, %y : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %s : tensor<4x6xf32>
}

// Contracted dims in another order: one operand is transposed first.
// CHECK-LABEL: func.func @unordered
func.func @unordered(%a: tensor<4x3x5xf32>, %b: tensor<5x3x6xf32>) -> tensor<4x6xf32> {
  // CHECK: graph.transpose
  // CHECK: rank.gemm
  %x = graph.matmul %a, %b batch [] x [] contract [1, 2] x [1, 0] : (tensor<4x3x5xf32>, tensor<5x3x6xf32>) -> tensor<4x6xf32>
  return %x : tensor<4x6xf32>
}

// A microbatch sum is added to by the product itself.
// CHECK-LABEL: func.func @accumulate
func.func @accumulate(%x: tensor<2x4x8xf32>) -> tensor<8x8xf32> {
  // CHECK: rest
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<i64>, %[[XI:.*]]: tensor<4x8xf32>, %[[SUM:.*]]: tensor<8x8xf32>):
  // CHECK-NEXT: %[[NEXT:.*]] = rank.gemm %[[XI]] at [0, 1, 8], %[[XI]] at [0, 8, 1] add %[[SUM]]
  // CHECK-NEXT: rank.yield %[[NEXT]]
  %0 = rank.microbatches count = 2 of(%x) carry() first {
  ^bb0(%i: tensor<i64>, %xi: tensor<4x8xf32>):
    %g = graph.matmul %xi, %xi batch [] x [] contract [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    rank.yield %g : tensor<8x8xf32>
  } rest {
  ^bb0(%i: tensor<i64>, %xi: tensor<4x8xf32>, %sum: tensor<8x8xf32>):
    %g = graph.matmul %xi, %xi batch [] x [] contract [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %n = graph.add %sum, %g : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    rank.yield %n : tensor<8x8xf32>
  } : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
