// What is added to the scores, what hides keys and what comes after the softmax
// becomes an attention's bias, mask and attributes.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// A causal mask and one of padding in one: the first stays an attribute, and the
// second one number for each key. Queries that see nothing keep what they had.

// CHECK-LABEL: func.func @forward
// CHECK: %[[M:.+]] = graph.reshape %{{.*}} : (tensor<2x3xi1>) -> tensor<2x1x1x3xi1>
// CHECK: graph.attention %{{.*}} mask %[[M]] masked add {causal = true, fill = -3.4028234663852886E+38 : f64, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %a = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %b = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x1x3x3xi1>
  %c = graph.and %a, %b : tensor<2x1x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<2x1x3x3xf32>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x1x3x3xf32>
  %m = graph.select %c, %zero, %low : (tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32>
  %n = graph.reshape %m : (tensor<2x1x3x3xf32>) -> tensor<2x3x3xf32>
  %o = graph.broadcast %n {dims = array<i64: 0, 2, 3>} : (tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// The same as numbers of half precision, with the fill first.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{.*}} masked add {causal = true, fill = -6.550400e+04 : f64, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %a = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %b = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x1x3x3xi1>
  %c = graph.and %a, %b : tensor<2x1x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<2x1x3x3xf32>
  %d = graph.not %c : tensor<2x1x3x3xi1>
  %low = graph.constant dense<-65504.0> : tensor<2x1x3x3xf32>
  %m = graph.select %d, %low, %zero : (tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32>
  %n = graph.reshape %m : (tensor<2x1x3x3xf32>) -> tensor<2x3x3xf32>
  %o = graph.broadcast %n {dims = array<i64: 0, 2, 3>} : (tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A causal mask of positions.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %i = graph.iota dim = 2 : tensor<2x2x3x3xi64>
  %j = graph.iota dim = 3 : tensor<2x2x3x3xi64>
  %c = graph.compare le %j, %i : (tensor<2x2x3x3xi64>, tensor<2x2x3x3xi64>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A window of two keys, of positions.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true, scale = 1.000000e+00 : f64, window = 2 : i64}
func.func @forward(%q: tensor<1x2x4x3xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x4x3xf32> {graph.role = #graph.input<"k">}, %v: tensor<1x2x4x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<1x2x4x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x4x3xf32>, tensor<1x2x4x3xf32>) -> tensor<1x2x4x4xf32>
  %i = graph.iota dim = 0 : tensor<4xi64>
  %j = graph.iota dim = 0 : tensor<4xi64>
  %two = graph.constant dense<2> : tensor<4xi64>
  %k2 = graph.add %j, %two : tensor<4xi64>
  %ii = graph.broadcast %i {dims = array<i64: 2>} : (tensor<4xi64>) -> tensor<1x2x4x4xi64>
  %jj = graph.broadcast %j {dims = array<i64: 3>} : (tensor<4xi64>) -> tensor<1x2x4x4xi64>
  %kk = graph.broadcast %k2 {dims = array<i64: 3>} : (tensor<4xi64>) -> tensor<1x2x4x4xi64>
  %c1 = graph.compare ge %ii, %jj : (tensor<1x2x4x4xi64>, tensor<1x2x4x4xi64>) -> tensor<1x2x4x4xi1>
  %c2 = graph.compare lt %ii, %kk : (tensor<1x2x4x4xi64>, tensor<1x2x4x4xi64>) -> tensor<1x2x4x4xi1>
  %c = graph.and %c1, %c2 : tensor<1x2x4x4xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<1x2x4x4xf32>
  %t = graph.select %c, %s, %low : (tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x4x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x4x5xf32>
  return %y : tensor<1x2x4x5xf32>
}

// -----

// A window in a constant that is added.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true, scale = 1.000000e+00 : f64, window = 2 : i64}
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, -3.4028234663852886e+38, -3.4028234663852886e+38], [0.0, 0.0, -3.4028234663852886e+38], [-3.4028234663852886e+38, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Keys on both sides of the query: no attribute says that. The mask is computed
// from positions.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: true, true, false
// CHECK: %[[M:.+]] = graph.and %{{.*}} : tensor<1x1x3x3xi1>
// CHECK: graph.attention %{{.*}} mask %[[M]] {causal = false, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[true, true, false], [true, true, true], [false, true, true]]> : tensor<3x3xi1>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x3xf32>
  %t = graph.select %o, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Queries that are counted from the first key, where there are more keys.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{.*}} {causal = false, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x4x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x4x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x3x4xf32>
  %m = graph.constant dense<[[true, false, false, false], [true, true, false, false], [true, true, true, false]]> : tensor<3x4xi1>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x4xi1>) -> tensor<2x2x3x4xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x4xf32>
  %t = graph.select %o, %s, %low : (tensor<2x2x3x4xi1>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Counted from the last of both, it is causal.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x4x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x4x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x3x4xf32>
  %m = graph.constant dense<[[true, true, false, false], [true, true, true, false], [true, true, true, true]]> : tensor<3x4xi1>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x4xi1>) -> tensor<2x2x3x4xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x4xf32>
  %t = graph.select %o, %s, %low : (tensor<2x2x3x4xi1>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// The first query sees nothing: the parts give the mean of all values.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{.*}} masked add {causal = false, fill = -3.0000000054977558E+38 : f64, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[-3.0e+38, -3.0e+38, -3.0e+38], [0.0, 0.0, -3.0e+38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Scores of -9 where a query must not look count as such.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} masked replace {causal = true, fill = -9.000000e+00 : f64, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %c = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-9.0> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A bias by distance (ALiBi) is one number for each head and key, though some are
// zero; before the scale it is scaled, too.

// CHECK-LABEL: func.func @forward
// CHECK: %[[B:.+]] = graph.reshape %{{.*}} : (tensor<2x3xf32>) -> tensor<1x2x1x3xf32>
// CHECK: graph.attention %{{.*}} bias %[[B]] {causal = false, scale = 5.000000e-01 : f64}
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %h = graph.constant dense<0.5> : tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, 0.5, 1.0], [0.0, 0.25, 0.5]]> : tensor<2x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 1, 3>} : (tensor<2x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %o, %s : tensor<2x2x3x3xf32>
  %u = graph.mul %t, %h : tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A bias that is learned (T5), and a causal mask.

graph.parameter @w : tensor<2x3x3xf32> at "m.onnx" offset 0 length 72 {trainable}
// CHECK-LABEL: func.func @forward
// CHECK: %[[B:.+]] = graph.reshape %{{.*}} : (tensor<2x3x3xf32>) -> tensor<1x2x3x3xf32>
// CHECK: graph.attention %{{.*}} bias %[[B]] {causal = true, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %w: tensor<2x3x3xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %b = graph.broadcast %w {dims = array<i64: 1, 2, 3>} : (tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %n = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %m = graph.add %s, %b : tensor<2x2x3x3xf32>
  %o = graph.add %m, %n : tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %c = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %o, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Two masks that are added: what both hide has both numbers, so one is a bias.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} bias %{{[a-z0-9]+}} masked add {causal = true, fill = -1.000000e+04 : f64, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, -1.0e4, -1.0e4], [0.0, 0.0, -1.0e4], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %z = graph.constant dense<0.0> : tensor<2x3xf32>
  %l = graph.constant dense<-1.0e4> : tensor<2x3xf32>
  %n = graph.select %padding, %z, %l : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %nn = graph.broadcast %n {dims = array<i64: 0, 3>} : (tensor<2x3xf32>) -> tensor<2x2x3x3xf32>
  %u = graph.add %t, %nn : tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Gemma 2: C tanh(s / C).

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = false, scale = 5.000000e-01 : f64, softcap = 8.000000e+00 : f64}
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %h = graph.constant dense<0.5> : tensor<2x2x3x3xf32>
  %cap = graph.constant dense<8.0> : tensor<2x2x3x3xf32>
  %a = graph.mul %s, %h : tensor<2x2x3x3xf32>
  %b = graph.div %a, %cap : tensor<2x2x3x3xf32>
  %c = graph.tanh %b : tensor<2x2x3x3xf32>
  %t = graph.mul %c, %cap : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Zeros where a query sees nothing: the probabilities are no numbers there.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{[a-z0-9]+}} {causal = true, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %a = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %b = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x1x3x3xi1>
  %c = graph.and %a, %b : tensor<2x1x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<2x1x3x3xf32>
  %low = graph.constant dense<0xFF800000> : tensor<2x1x3x3xf32>
  %m = graph.select %c, %zero, %low : (tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32>
  %n = graph.reshape %m : (tensor<2x1x3x3xf32>) -> tensor<2x3x3xf32>
  %o = graph.broadcast %n {dims = array<i64: 0, 2, 3>} : (tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %nan = graph.compare ne %p, %p : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %nan, %zz, %p : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Where every query has a finite score they are numbers, and zeros change nothing.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{[a-z0-9]+}} masked add {causal = true, fill = -3.4028234663852886E+38 : f64
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %a = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %b = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x1x3x3xi1>
  %c = graph.and %a, %b : tensor<2x1x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<2x1x3x3xf32>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x1x3x3xf32>
  %m = graph.select %c, %zero, %low : (tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32>
  %n = graph.reshape %m : (tensor<2x1x3x3xf32>) -> tensor<2x3x3xf32>
  %o = graph.broadcast %n {dims = array<i64: 0, 2, 3>} : (tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %nan = graph.compare ne %p, %p : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %nan, %zz, %p : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %r, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Zeros after the softmax where the mask hides, and dropout.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{[a-z0-9]+}} dropout %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = false, rate = 2.500000e-01 : f64, rng_id = 4 : i64, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %padding: tensor<2x3xi1> {graph.role = #graph.input<"padding">}, %seed: tensor<i64> {graph.role = #graph.counter<seed>}, %step: tensor<i64> {graph.role = #graph.counter<step>}, %micro: tensor<i64> {graph.role = #graph.counter<microbatch>})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %c = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-1.0e30> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %d = graph.broadcast %padding {dims = array<i64: 0, 3>} : (tensor<2x3xi1>) -> tensor<2x2x3x3xi1>
  %zz = graph.constant dense<0.0> : tensor<2x2x3x3xf32>
  %r = graph.select %d, %p, %zz : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %x = graph.dropout %r, %seed, %step, %micro {rate = 0.25 : f64, rng_id = 4 : i64} : (tensor<2x2x3x3xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %x, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Heads of keys that are repeated, as exporters do it for a batch of one: dims of
// size 1 are left out.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<1x2x3x4xf32>
// CHECK: graph.attention %[[Q]], %[[K]], %{{.*}} {causal = false, scale = 2.500000e-01 : f64} : (tensor<1x6x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>)
func.func @forward(%q: tensor<1x6x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<1x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<1x6x3x5xf32> {graph.role = #graph.output<"y">}) {
  %half = graph.constant dense<0.5> : tensor<1x6x4x3xf32>
  %half2 = graph.constant dense<0.5> : tensor<1x6x3x4xf32>
  %kk = graph.broadcast %k {dims = array<i64: 0, 1, 3, 4>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x3x4xf32>
  %k1 = graph.reshape %kk : (tensor<1x2x3x3x4xf32>) -> tensor<6x3x4xf32>
  %k2 = graph.transpose %k1 {permutation = array<i64: 0, 2, 1>} : (tensor<6x3x4xf32>) -> tensor<6x4x3xf32>
  %k3 = graph.reshape %k2 : (tensor<6x4x3xf32>) -> tensor<1x6x4x3xf32>
  %k4 = graph.mul %k3, %half : tensor<1x6x4x3xf32>
  %k5 = graph.reshape %k4 : (tensor<1x6x4x3xf32>) -> tensor<6x4x3xf32>
  %q1 = graph.mul %q, %half2 : tensor<1x6x3x4xf32>
  %s0 = graph.matmul %q1, %k5 batch [1] x [0] contract [3] x [1] : (tensor<1x6x3x4xf32>, tensor<6x4x3xf32>) -> tensor<6x1x3x3xf32>
  %s = graph.transpose %s0 {permutation = array<i64: 1, 0, 2, 3>} : (tensor<6x1x3x3xf32>) -> tensor<1x6x3x3xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<1x6x3x3xf32>) -> tensor<1x6x3x3xf32>
  %vv = graph.broadcast %v {dims = array<i64: 0, 1, 3, 4>} : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x3x5xf32>
  %v1 = graph.reshape %vv : (tensor<1x2x3x3x5xf32>) -> tensor<6x3x5xf32>
  %y0 = graph.matmul %p, %v1 batch [1] x [0] contract [3] x [1] : (tensor<1x6x3x3xf32>, tensor<6x3x5xf32>) -> tensor<6x1x3x5xf32>
  %y = graph.transpose %y0 {permutation = array<i64: 1, 0, 2, 3>} : (tensor<6x1x3x5xf32>) -> tensor<1x6x3x5xf32>
  return %y : tensor<1x6x3x5xf32>
}

// -----

// BLOOM: samples and heads are one dim of the products, and the bias is one number
// for each key of each.

graph.parameter @w : tensor<2x2x3xf32> at "m.onnx" offset 0 length 48 {trainable}
// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} bias %{{.*}} {causal = true, scale = 5.000000e-01 : f64} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x5xf32>, tensor<2x2x1x3xf32>)
func.func @forward(%q: tensor<4x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<4x4x3xf32> {graph.role = #graph.input<"k">}, %v: tensor<4x3x5xf32> {graph.role = #graph.input<"v">}, %w: tensor<2x2x3xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<4x3x5xf32> {graph.role = #graph.output<"y">}) {
  %half = graph.constant dense<0.5> : tensor<4x3x3xf32>
  %s0 = graph.matmul %q, %k batch [0] x [0] contract [2] x [1] : (tensor<4x3x4xf32>, tensor<4x4x3xf32>) -> tensor<4x3x3xf32>
  %s1 = graph.mul %s0, %half : tensor<4x3x3xf32>
  %w0 = graph.exp %w : tensor<2x2x3xf32>
  %w1 = graph.reshape %w0 : (tensor<2x2x3xf32>) -> tensor<4x3xf32>
  %w2 = graph.broadcast %w1 {dims = array<i64: 0, 2>} : (tensor<4x3xf32>) -> tensor<4x3x3xf32>
  %s2 = graph.add %s1, %w2 : tensor<4x3x3xf32>
  %s3 = graph.reshape %s2 : (tensor<4x3x3xf32>) -> tensor<2x2x3x3xf32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %c = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<0xFF800000> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s3, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = graph.reshape %p : (tensor<2x2x3x3xf32>) -> tensor<4x3x3xf32>
  %y = graph.matmul %p1, %v batch [0] x [0] contract [2] x [1] : (tensor<4x3x3xf32>, tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  return %y : tensor<4x3x5xf32>
}

// -----

// Positions that became booleans are no longer positions.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{.*}} masked replace {causal = false, fill = -9.000000e+00 : f64
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %i = graph.iota dim = 2 : tensor<2x2x3x3xi64>
  %j = graph.iota dim = 3 : tensor<2x2x3x3xi64>
  %ib = graph.convert %i : (tensor<2x2x3x3xi64>) -> tensor<2x2x3x3xi1>
  %jb = graph.convert %j : (tensor<2x2x3x3xi64>) -> tensor<2x2x3x3xi1>
  %c = graph.compare le %jb, %ib : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xi1>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-9.0> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Positions in bf16 are exact up to 256 only.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{.*}} mask %{{.*}} masked replace {causal = false, fill = -9.000000e+00 : f64
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %i = graph.iota dim = 2 : tensor<2x2x3x3xi64>
  %ib = graph.convert %i : (tensor<2x2x3x3xi64>) -> tensor<2x2x3x3xbf16>
  %jb = graph.iota dim = 3 : tensor<2x2x3x3xbf16>
  %c = graph.compare le %jb, %ib : (tensor<2x2x3x3xbf16>, tensor<2x2x3x3xbf16>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-9.0> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Scores of bf16 that are not rounded, and values of f32: an attention would have
// one type.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
func.func @forward(%q: tensor<2x2x3x4xbf16> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xbf16> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xbf16>, tensor<2x2x3x4xbf16>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// Two numbers besides zero are a bias, even low ones.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} bias %{{[a-z0-9]+}} {causal = false, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, -8.0, -9.0], [0.0, 0.0, -8.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A positive number hides no keys: it is a bias.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} bias %{{[a-z0-9]+}} {causal = false, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %m = graph.constant dense<[[0.0, 9.0, 9.0], [0.0, 0.0, 9.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %t = graph.add %s, %o : tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}

// -----

// A causal mask as a strict comparison: key < query + 1.

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal = true, scale
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">}, %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">})
    -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %i = graph.iota dim = 2 : tensor<2x2x3x3xi64>
  %j = graph.iota dim = 3 : tensor<2x2x3x3xi64>
  %one = graph.constant dense<1> : tensor<2x2x3x3xi64>
  %next = graph.add %i, %one : tensor<2x2x3x3xi64>
  %c = graph.compare lt %j, %next : (tensor<2x2x3x3xi64>, tensor<2x2x3x3xi64>) -> tensor<2x2x3x3xi1>
  %low = graph.constant dense<-3.4028234663852886e+38> : tensor<2x2x3x3xf32>
  %t = graph.select %c, %s, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %t {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}
