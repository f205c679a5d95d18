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
  // CHECK-NEXT: %[[S:.*]] = rank.gemm %[[X:.*]] at [0, 48, 1], %[[X]] at [16, 1, 48] sizes [4, 4, 8] row 4 batch [2, 192, 192, 32, 2, 8, 8, 16] {alpha = 2.500000e-01 : f64}
  // CHECK-NEXT: return %[[S]]
  %q0 = graph.slice %qkv {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 2, 4, 1, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %k0 = graph.slice %qkv {starts = array<i64: 0, 0, 1, 0, 0>, limits = array<i64: 2, 4, 2, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %q1 = graph.reshape %q0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %k1 = graph.reshape %k0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %q = graph.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %k = graph.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %f = graph.constant dense<2.500000e-01> : tensor<2x2x4x4xf32>
  %r = graph.mul %s, %f : tensor<2x2x4x4xf32>
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
  %s = graph.add %x, %y : tensor<4x6xf32>
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
  // CHECK-NEXT: ^bb0(%[[XI:.*]]: tensor<4x8xf32>, %[[SUM:.*]]: tensor<8x8xf32>):
  // CHECK-NEXT: %[[NEXT:.*]] = rank.gemm %[[XI]] at [0, 1, 8], %[[XI]] at [0, 8, 1] add %[[SUM]]
  // CHECK-NEXT: rank.yield %[[NEXT]]
  %0 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<4x8xf32>):
    %g = graph.matmul %xi, %xi batch [] x [] contract [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    rank.yield %g : tensor<8x8xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<4x8xf32>, %sum: tensor<8x8xf32>):
    %g = graph.matmul %xi, %xi batch [] x [] contract [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %n = graph.add %sum, %g : tensor<8x8xf32>
    rank.yield %n : tensor<8x8xf32>
  }
  } : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// The result is transposed, so the operands change places: each keeps its own
// offset and strides.
// CHECK-LABEL: func.func @swapped
// CHECK-SAME: %[[X:.*]]: tensor<34x16xf32>, %[[W:.*]]: tensor<16x40xf32>
func.func @swapped(%x: tensor<34x16xf32>, %w: tensor<16x40xf32>) -> tensor<32x32xf32> {
  // CHECK-NEXT: rank.gemm %[[W]] at [1, 1, 40], %[[X]] at [32, 1, 16] sizes [32, 32, 16] row 32 batch [] :
  // CHECK-NEXT: return
  %x2 = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 34, 16>, strides = array<i64: 1, 1>} : (tensor<34x16xf32>) -> tensor<32x16xf32>
  %w1 = graph.slice %w {starts = array<i64: 0, 1>, limits = array<i64: 16, 33>, strides = array<i64: 1, 1>} : (tensor<16x40xf32>) -> tensor<16x32xf32>
  %y = graph.matmul %x2, %w1 batch [] x [] contract [1] x [0] : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  return %t : tensor<32x32xf32>
}

// Several scales are one, whichever operand they are; then the sum.
// CHECK-LABEL: func.func @scales
func.func @scales(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[FIRST:.*]] = rank.gemm {{.*}} batch [] : (tensor<4x8xf32>, tensor<8x6xf32>)
  // CHECK-NEXT: rank.gemm %{{.*}}, %{{.*}} add %[[FIRST]] {{.*}} {alpha = 1.250000e-01 : f64}
  // CHECK-NEXT: return
  %half = graph.constant dense<5.000000e-01> : tensor<4x6xf32>
  %one = graph.constant dense<2.500000e-01> : tensor<f32>
  %quarter = graph.broadcast %one {dims = array<i64>} : (tensor<f32>) -> tensor<4x6xf32>
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %0 = graph.mul %y, %half : tensor<4x6xf32>
  %1 = graph.mul %quarter, %0 : tensor<4x6xf32>
  %s = graph.add %1, %x : tensor<4x6xf32>
  return %s : tensor<4x6xf32>
}

// A constant with different elements is no scale.
// CHECK-LABEL: func.func @no_scale
// CHECK: rank.gemm {{.*}} batch [] :
// CHECK: graph.mul
func.func @no_scale(%a: tensor<2x8xf32>, %b: tensor<8x2xf32>) -> tensor<2x2xf32> {
  %c = graph.constant dense<[[0.5, 0.5], [0.5, 2.0]]> : tensor<2x2xf32>
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<2x2xf32>
  %y = graph.mul %x, %c : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// What is read again stays as it is: no scale, transpose or sum becomes part of
// the product.
// CHECK-LABEL: func.func @scaled_twice
// CHECK: %[[X:.*]] = rank.gemm {{.*}} batch [] :
// CHECK: graph.mul %[[X]]
// CHECK: graph.mul %[[X]]
func.func @scaled_twice(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %half = graph.constant dense<5.000000e-01> : tensor<4x6xf32>
  %third = graph.constant dense<3.000000e-01> : tensor<4x6xf32>
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.mul %x, %half : tensor<4x6xf32>
  %z = graph.mul %x, %third : tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @transposed_twice
// CHECK: %[[X:.*]] = rank.gemm {{.*}} sizes [32, 32, 16] row 32 batch [] :
// CHECK: graph.transpose %[[X]]
// CHECK: graph.transpose %[[X]]
func.func @transposed_twice(%a: tensor<32x16xf32>, %b: tensor<16x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %z = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  return %y, %z : tensor<32x32xf32>, tensor<32x32xf32>
}

// The first product is a result itself, so that the sum needs a buffer of its own.
// CHECK-LABEL: func.func @summed_and_read
// CHECK: %[[X:.*]] = rank.gemm {{.*}} batch [] :
// CHECK: %[[Y:.*]] = rank.gemm {{.*}} batch [] :
// CHECK: %[[S:.*]] = graph.add %[[X]], %[[Y]]
// CHECK: return %[[X]], %[[S]]
func.func @summed_and_read(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %sum = graph.add %x, %y : tensor<4x6xf32>
  return %x, %sum : tensor<4x6xf32>, tensor<4x6xf32>
}

// A report names the product by where it comes from.
// CHECK-LABEL: func.func @named
// CHECK: rank.gemm {{.*}}graph.origin = "head", graph.scope = "block"
func.func @named(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] {graph.scope = "block", graph.origin = "head"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %x : tensor<4x6xf32>
}

// Attention is its parts, which come from where it does: two products.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) -> tensor<2x2x4x2xf32> {
  // CHECK-NOT: graph.attention
  // CHECK-COUNT-2: rank.gemm {{.*}}graph.scope = "model.attention"
  // CHECK: return
  %r:2 = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true, graph.scope = "model.attention"}
      : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return %r#0 : tensor<2x2x4x2xf32>
}

// Products of groups: the experts' matrices are read as they are stored, whatever
// transposes and slices are between; `groups` says which rows count.
// CHECK-LABEL: func.func @grouped
func.func @grouped(%x: tensor<6x4xf32>, %w: tensor<3x8x4xf32>, %g: tensor<6xi64>, %ids: tensor<3xi64>) -> tensor<6x8xf32> {
  // CHECK-NEXT: rank.gemm %{{.*}} at [0, 4, 1], %{{.*}} at [0, 1, 4] groups %{{.*}} ids %{{.*}} sizes [6, 8, 4] row 8 batch [3, 0, 32, 0] {grouped = #rank.grouped<rows>}
  // CHECK-NEXT: return
  %t = graph.transpose %w {permutation = array<i64: 0, 2, 1>} : (tensor<3x8x4xf32>) -> tensor<3x4x8xf32>
  %y = graph.grouped_matmul %x, %t, %g, %ids : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<6xi64>, tensor<3xi64>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// Their gradient is made as it is stored: the product the other way round.
// CHECK-LABEL: func.func @grouped_transposed
func.func @grouped_transposed(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>, %g: tensor<6xi64>, %ids: tensor<3xi64>) -> tensor<3x8x4xf32> {
  // CHECK-NEXT: rank.gemm %[[DY:.*]] at [0, 1, 8], %[[X:.*]] at [0, 4, 1] groups %{{.*}} ids %{{.*}} sizes [8, 4, 6] row 4 batch [3, 0, 0, 32] {grouped = #rank.grouped<inner>}
  // CHECK-SAME: (tensor<6x8xf32>, tensor<6x4xf32>, tensor<6xi64>, tensor<3xi64>) -> tensor<3x8x4xf32>
  // CHECK-NEXT: return
  %o = graph.grouped_outer %x, %dy, %g, %ids : (tensor<6x4xf32>, tensor<6x8xf32>, tensor<6xi64>, tensor<3xi64>) -> tensor<3x4x8xf32>
  %t = graph.transpose %o {permutation = array<i64: 0, 2, 1>} : (tensor<3x4x8xf32>) -> tensor<3x8x4xf32>
  return %t : tensor<3x8x4xf32>
}

// Two of three matrices, and rows of which each is one element of a row.
// CHECK-LABEL: func.func @grouped_parts
func.func @grouped_parts(%x: tensor<6x4xf32>, %w: tensor<3x1x8xf32>, %g: tensor<6xi64>, %ids: tensor<2xi64>) -> tensor<6x8xf32> {
  // CHECK-NEXT: rank.gemm %{{.*}} at [1, 4, 1], %{{.*}} at [8, 8, 1] groups %{{.*}} ids %{{.*}} sizes [6, 8, 1] row 8 batch [2, 0, 8, 0] {alpha = 5.000000e-01 : f64, grouped = #rank.grouped<rows>}
  // CHECK-NEXT: return
  %c = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 6, 2>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<6x1xf32>
  %m = graph.slice %w {starts = array<i64: 1, 0, 0>, limits = array<i64: 3, 1, 8>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x8xf32>) -> tensor<2x1x8xf32>
  %y = graph.grouped_matmul %c, %m, %g, %ids : (tensor<6x1xf32>, tensor<2x1x8xf32>, tensor<6xi64>, tensor<2xi64>) -> tensor<6x8xf32>
  %f = graph.constant dense<5.000000e-01> : tensor<6x8xf32>
  %r = graph.mul %y, %f : tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// Every other column is no matrix that a call reads: it is copied first.
// CHECK-LABEL: func.func @grouped_strided
func.func @grouped_strided(%x: tensor<6x8xf32>, %w: tensor<3x4x8xf32>, %g: tensor<6xi64>, %ids: tensor<3xi64>) -> tensor<6x8xf32> {
  // CHECK-NEXT: %[[C:.*]] = graph.slice
  // CHECK-NEXT: rank.gemm %[[C]] at [0, 4, 1]
  %c = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 6, 8>, strides = array<i64: 1, 2>} : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %y = graph.grouped_matmul %c, %w, %g, %ids : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<6xi64>, tensor<3xi64>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// Products of bf16 are added in f32. A gradient of a weight is not rounded: its
// sum over microbatches is part of the call, as is a factor.
// CHECK-LABEL: func.func @narrow_to_wide
func.func @narrow_to_wide(%x: tensor<8x4xbf16>, %y: tensor<8x6xbf16>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[FIRST:.*]] = rank.gemm {{.*}} {accumulator = f32} : (tensor<8x4xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  // CHECK-NEXT: rank.gemm %{{.*}} at [0, 1, 4], %{{.*}} at [0, 6, 1] add %[[FIRST]] sizes [4, 6, 8] row 6 batch [] {accumulator = f32, alpha = 5.000000e-01 : f64} : (tensor<8x4xbf16>, tensor<8x6xbf16>, tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: return
  %half = graph.constant dense<5.000000e-01> : tensor<4x6xf32>
  %0 = graph.matmul %x, %y batch [] x [] contract [0] x [0] : (tensor<8x4xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %1 = graph.matmul %x, %y batch [] x [] contract [0] x [0] : (tensor<8x4xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %2 = graph.mul %1, %half : tensor<4x6xf32>
  %3 = graph.add %0, %2 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// A product that is rounded to bf16 is rounded before it is scaled or added to
// another one, and these round again.
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<4x8xbf16>, %y: tensor<8x6xbf16>) -> tensor<4x6xbf16> {
  // CHECK: %[[FIRST:.*]] = rank.gemm {{.*}} batch [] {accumulator = f32} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  // CHECK: %[[SECOND:.*]] = rank.gemm {{.*}} batch [] {accumulator = f32} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  // CHECK: %[[SCALED:.*]] = graph.mul %[[SECOND]]
  // CHECK: graph.add %[[FIRST]], %[[SCALED]]
  %half = graph.constant dense<5.000000e-01> : tensor<4x6xbf16>
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %1 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %2 = graph.mul %1, %half : tensor<4x6xbf16>
  %3 = graph.add %0, %2 : tensor<4x6xbf16>
  return %3 : tensor<4x6xbf16>
}

// Conversions of a product are ops of their own: what was rounded stays so.
// CHECK-LABEL: func.func @converted
// CHECK: %[[Y:.*]] = rank.gemm {{.*}} -> tensor<4x6xf16>
// CHECK: graph.convert %[[Y]] : (tensor<4x6xf16>) -> tensor<4x6xf32>
func.func @converted(%x: tensor<4x8xf16>, %y: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
  %1 = graph.convert %0 : (tensor<4x6xf16>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @narrow_groups
func.func @narrow_groups(%x: tensor<6x4xbf16>, %y: tensor<6x8xbf16>, %g: tensor<6xi64>, %ids: tensor<3xi64>) -> (tensor<6x8xbf16>, tensor<3x4x8xf32>) {
  // CHECK-NEXT: %[[OUTER:.*]] = rank.gemm {{.*}} sizes [4, 8, 6] row 8 batch [3, 0, 0, 32] {accumulator = f32, grouped = #rank.grouped<inner>} : {{.*}} -> tensor<3x4x8xf32>
  // CHECK: rank.gemm {{.*}} {accumulator = f32, grouped = #rank.grouped<rows>} : {{.*}} -> tensor<6x8xbf16>
  %0 = graph.grouped_outer %x, %y, %g, %ids : (tensor<6x4xbf16>, tensor<6x8xbf16>, tensor<6xi64>, tensor<3xi64>) -> tensor<3x4x8xf32>
  %w = graph.convert %0 : (tensor<3x4x8xf32>) -> tensor<3x4x8xbf16>
  %1 = graph.grouped_matmul %x, %w, %g, %ids : (tensor<6x4xbf16>, tensor<3x4x8xbf16>, tensor<6xi64>, tensor<3xi64>) -> tensor<6x8xbf16>
  return %1, %0 : tensor<6x8xbf16>, tensor<3x4x8xf32>
}
