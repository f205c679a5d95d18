// What looks like attention, or like a fused projection, and is not: it stays
// as it is.

// RUN: polyrank-opt %s -split-input-file --raise-composites --find-logical-parameters | FileCheck %s

// Two queries, counted from the first key: not the op's causal attention, which
// counts from the last of both. The mask stays an operand.

// CHECK-LABEL: func.func @forward
// CHECK: %[[MASK:.+]] = graph.constant dense<{{\[\[}}true, false, false], [true, true, false]]>
// CHECK: graph.attention {{.*}}, %[[MASK]] {causal = false, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
  %mask = graph.constant dense<[[[[0.0, -3.4028234663852886e+38, -3.4028234663852886e+38], [0.0, 0.0, -3.4028234663852886e+38]]]]> : tensor<1x1x2x3xf32>
  %a = graph.add %s, %mask : tensor<1x1x2x3xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x3xf32>) -> tensor<1x1x2x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// Counted from the last of both, it is.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true,
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x3xf32>
  %mask = graph.constant dense<[[[[0.0, 0.0, -3.4028234663852886e+38], [0.0, 0.0, 0.0]]]]> : tensor<1x1x2x3xf32>
  %a = graph.add %s, %mask : tensor<1x1x2x3xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x3xf32>) -> tensor<1x1x2x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// A bias by distance (ALiBi) is no mask, though half of it is zero.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: graph.add
// CHECK: graph.softmax
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x2x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x2x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x2xf32>
  %bias = graph.constant dense<[[[[0.0, 0.0], [-0.5, 0.0]]]]> : tensor<1x1x2x2xf32>
  %a = graph.add %s, %bias : tensor<1x1x2x2xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// Nor is it with a mask in it, nor are scores of -9 where a query must not look.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: graph.select
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x2x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x2x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}, tensor<1x1x2x4xf32> {graph.role = #graph.output<"z">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x2xf32>
  %bias = graph.constant dense<[[[[0.0, -3.4028234663852886e+38], [-0.5, 0.0]]]]> : tensor<1x1x2x2xf32>
  %a = graph.add %s, %bias : tensor<1x1x2x2xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
  %visible = graph.constant dense<[[[[true, false], [true, true]]]]> : tensor<1x1x2x2xi1>
  %low = graph.constant dense<-9.0> : tensor<1x1x2x2xf32>
  %b = graph.select %visible, %s, %low : (tensor<1x1x2x2xi1>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %r = graph.softmax %b {dim = 3 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %z = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
  return %y, %z : tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>
}

// -----

// Slices of four columns that begin at two: no multiple of them, so the matrix
// has no parts of four.

graph.parameter @w : tensor<8x12xf32> at "m.onnx" offset 0 length 384 {trainable}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<8x12xf32> {graph.role = #graph.parameter<@w>})
// CHECK: graph.matmul
// CHECK-SAME: -> tensor<3x12xf32>
// CHECK: graph.slice {{.*}}starts = array<i64: 0, 2>
func.func @forward(%x: tensor<3x8xf32> {graph.role = #graph.input<"x">}, %w: tensor<8x12xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<3x4xf32> {graph.role = #graph.output<"a">}, tensor<3x4xf32> {graph.role = #graph.output<"b">}) {
  %m = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x8xf32>, tensor<8x12xf32>) -> tensor<3x12xf32>
  %a = graph.slice %m {starts = array<i64: 0, 2>, limits = array<i64: 3, 6>, strides = array<i64: 1, 1>} : (tensor<3x12xf32>) -> tensor<3x4xf32>
  %b = graph.slice %m {starts = array<i64: 0, 6>, limits = array<i64: 3, 10>, strides = array<i64: 1, 1>} : (tensor<3x12xf32>) -> tensor<3x4xf32>
  return %a, %b : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// Aligned ones of which the last leaves a rest: ten is no multiple of four.

graph.parameter @w : tensor<8x10xf32> at "m.onnx" offset 0 length 320 {trainable}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<8x10xf32> {graph.role = #graph.parameter<@w>})
// CHECK: graph.matmul
// CHECK-SAME: -> tensor<3x10xf32>
func.func @forward(%x: tensor<3x8xf32> {graph.role = #graph.input<"x">}, %w: tensor<8x10xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<3x4xf32> {graph.role = #graph.output<"a">}, tensor<3x4xf32> {graph.role = #graph.output<"b">}) {
  %m = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<3x8xf32>, tensor<8x10xf32>) -> tensor<3x10xf32>
  %a = graph.slice %m {starts = array<i64: 0, 0>, limits = array<i64: 3, 4>, strides = array<i64: 1, 1>} : (tensor<3x10xf32>) -> tensor<3x4xf32>
  %b = graph.slice %m {starts = array<i64: 0, 4>, limits = array<i64: 3, 8>, strides = array<i64: 1, 1>} : (tensor<3x10xf32>) -> tensor<3x4xf32>
  return %a, %b : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// The first query sees nothing. Parts give the mean of all values, the op zero.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: graph.softmax
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x2x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x2x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x2xf32>
  %mask = graph.constant dense<[[[[-3.0e+38, -3.0e+38], [0.0, 0.0]]]]> : tensor<1x1x2x2xf32>
  %a = graph.add %s, %mask : tensor<1x1x2x2xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// A bias by distance where a key is visible: the select is no mask of booleans.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: graph.softmax
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<1x1x2x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x1x2x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x1x2x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x1x2x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x2xf32>
  %visible = graph.constant dense<[[[[true, false], [true, true]]]]> : tensor<1x1x2x2xi1>
  %bias = graph.constant dense<[[[[0.0, 0.0], [-0.5, 0.0]]]]> : tensor<1x1x2x2xf32>
  %low = graph.constant dense<-3.0e+38> : tensor<1x1x2x2xf32>
  %mask = graph.select %visible, %bias, %low : (tensor<1x1x2x2xi1>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %a = graph.add %s, %mask : tensor<1x1x2x2xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}
