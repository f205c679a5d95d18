// What looks like attention, or like a fused projection, and is not: it stays
// as it is.

// RUN: polyrank-opt %s -split-input-file --raise-composites --find-logical-parameters | FileCheck %s

// A float mask of the model's input may be minus infinity for all keys, where the
// select gives zeros: a bias would give no numbers.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %m: tensor<2x2x3x3xf32> {graph.role = #graph.input<"m">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %m : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %nan = graph.compare ne %p, %p : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %nan, %zz, %p : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A number that is added to scores that were replaced.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">}, %w: tensor<2x2x3x3xf32> {graph.role = #graph.input<"w">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %c = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-9.0> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %u = graph.add %t, %w : tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A bias within a tanh.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %w: tensor<2x2x3x3xf32> {graph.role = #graph.input<"w">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %w : tensor<2x2x3x3xf32>
  %u = graph.tanh %t : tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Zeros after the softmax where another mask hides.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">}, %other: tensor<2x3xi1> {graph.role = #graph.input<"other">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %c = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-1.0e30> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %d = graph.broadcast %other {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %d, %p, %zz : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Zeros after a softmax that hides nothing: the weights of the others do not add
// up to one.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %c = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %c, %p, %zero : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Parameters in the place of keys or values: a gate, or a table.

graph.parameter @k : tensor<4x5xf32> at "m.onnx" offset 0 length 80 {trainable}
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<4x5xf32> {graph.role = #graph.parameter<@k>}, %v: tensor<5x6xf32> {graph.role = #graph.input<"v">})
    -> (tensor<3x6xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [] x [] contract [1] x [0] : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %p = graph.softmax %s {dim = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %y = graph.matmul %p, %v batch [] x [] contract [1] x [0] : (tensor<3x5xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
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

// Scores of minus infinity hide all that the causal mask shows a query, which then
// takes the mean of the other keys, whose number is finite: the select finds no
// NaN, and an attention without these keys would give zeros.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, -3.0e+38, -3.0e+38], [0.0, 0.0, -3.0e+38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %z = graph.constant dense<0.0> : tensor<2x3xf32>
  %l = graph.constant dense<0xFF800000> : tensor<2x3xf32>
  %n = graph.select %padding, %z, %l : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %nn = graph.broadcast %n {dims = array<i64: 0, 3>} : (tensor<2x3xf32>) -> tensor<2x2x3x3xf32>
  %u = graph.add %t, %nn : tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %nan = graph.compare ne %p, %p : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %nan, %zz, %p : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}
