// softmax(q k^T scale + mask) v is attention, and nothing else is.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// A factor is the scale; with a mask of zeros and minus infinity above the
// diagonal each query sees the keys up to its own.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: {{.*}}, %[[V:[a-z0-9]+]]: tensor
// CHECK: %[[Y:.+]], %{{.+}} = graph.attention %[[Q]], %[[K]], %[[V]] {causal = true, scale = 5.000000e-01 : f64}
// CHECK: return %[[Y]]
func.func @forward(%q: tensor<1x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x2x3x4xf32> {graph.role = #graph.output<"y">}) {
  %half = graph.constant dense<0.5> : tensor<1x2x3x3xf32>
  %mask = graph.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %masks = graph.broadcast %mask {dims = array<i64: 2, 3>} : (tensor<3x3xf32>) -> tensor<1x2x3x3xf32>
  %0 = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = graph.mul %0, %half : tensor<1x2x3x3xf32>
  %2 = graph.add %1, %masks : tensor<1x2x3x3xf32>
  %3 = graph.softmax %2 {dim = 3 : i64} : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %4 = graph.matmul %3, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %4 : tensor<1x2x3x4xf32>
}

// -----

// Booleans, joined to others that hide nothing, as exporters write a causal mask
// and one for padding.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: {{.*}}, %[[V:[a-z0-9]+]]: tensor
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]] {causal = true, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<1x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x2x3x4xf32> {graph.role = #graph.output<"y">}) {
  %low = graph.constant dense<-1.0e+38> : tensor<1x2x3x3xf32>
  %zero = graph.constant dense<0.0> : tensor<1x2x3x3xf32>
  %true = graph.constant dense<true> : tensor<1x2x3x3xi1>
  %padding = graph.and %true, %true : tensor<1x2x3x3xi1>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %causal = graph.broadcast %seen {dims = array<i64: 2, 3>} : (tensor<3x3xi1>) -> tensor<1x2x3x3xi1>
  %both = graph.and %padding, %causal : tensor<1x2x3x3xi1>
  %mask = graph.select %both, %zero, %low : (tensor<1x2x3x3xi1>, tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %0 = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = graph.add %0, %mask : tensor<1x2x3x3xf32>
  %2 = graph.softmax %1 {dim = 3 : i64} : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %3 = graph.matmul %2, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %3 : tensor<1x2x3x4xf32>
}

// -----

// Without a mask; the key's transpose goes into the op.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: {{.*}}, %[[V:[a-z0-9]+]]: tensor
// CHECK: %[[Y:.+]], %{{.+}} = graph.attention %[[Q]], %[[K]], %[[V]] {causal = false, scale = 1.000000e+00 : f64}
// CHECK: return %[[Y]]
func.func @forward(%q: tensor<1x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x2x3x4xf32> {graph.role = #graph.output<"y">}) {
  %t = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x4x3xf32>
  %0 = graph.matmul %q, %t batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x3x4xf32>, tensor<1x2x4x3xf32>) -> tensor<1x2x3x3xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = graph.matmul %1, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %2 : tensor<1x2x3x4xf32>
}

// -----

// A softmax over the queries is no attention.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK: return
func.func @forward(%q: tensor<1x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x2x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x2x3x4xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = graph.softmax %0 {dim = 2 : i64} : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = graph.matmul %1, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %2 : tensor<1x2x3x4xf32>
}

// -----

// All heads of queries with one of keys and values (Shazeer 2019). Factors and the key's transpose stand between reshapes.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: {{.*}}, %[[V:[a-z0-9]+]]: tensor
// CHECK-NOT: graph.broadcast
// CHECK: %[[VS:.+]] = graph.reshape %[[V]] : (tensor<2x3x4xf32>) -> tensor<2x1x3x4xf32>
// CHECK: %[[Y:.+]], %{{.+}} = graph.attention %[[Q]], %[[K]], %[[VS]] {causal = false, scale = 2.500000e-01 : f64}
// CHECK: return %[[Y]]
func.func @forward(%q: tensor<2x5x6x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x1x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<2x5x6x4xf32> {graph.role = #graph.output<"y">}) {
  %half = graph.constant dense<0.5> : tensor<2x5x6x4xf32>
  %other = graph.constant dense<0.5> : tensor<2x1x4x3xf32>
  %r = graph.reshape %k : (tensor<2x1x3x4xf32>) -> tensor<2x3x4xf32>
  %t = graph.transpose %r {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %u = graph.reshape %t : (tensor<2x4x3xf32>) -> tensor<2x1x4x3xf32>
  %s = graph.mul %u, %other : tensor<2x1x4x3xf32>
  %w = graph.reshape %s : (tensor<2x1x4x3xf32>) -> tensor<2x4x3xf32>
  %p = graph.mul %q, %half : tensor<2x5x6x4xf32>
  %0 = graph.matmul %p, %w batch [0] x [0] contract [3] x [1] : (tensor<2x5x6x4xf32>, tensor<2x4x3xf32>) -> tensor<2x5x6x3xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<2x5x6x3xf32>) -> tensor<2x5x6x3xf32>
  %2 = graph.matmul %1, %v batch [0] x [0] contract [3] x [1] : (tensor<2x5x6x3xf32>, tensor<2x3x4xf32>) -> tensor<2x5x6x4xf32>
  return %2 : tensor<2x5x6x4xf32>
}

// -----

// The transpose is of [batch, 1, ..], or there is none.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<2x1x6x4xf32>
// CHECK: graph.attention %[[Q]], %[[K]], %{{.+}} {causal = false, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<2x5x6x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x1x6x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<2x6x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<2x5x6x4xf32> {graph.role = #graph.output<"y">}) {
  %t = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x1x6x4xf32>) -> tensor<2x1x4x6xf32>
  %w = graph.reshape %t : (tensor<2x1x4x6xf32>) -> tensor<2x4x6xf32>
  %0 = graph.matmul %q, %w batch [0] x [0] contract [3] x [1] : (tensor<2x5x6x4xf32>, tensor<2x4x6xf32>) -> tensor<2x5x6x6xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %2 = graph.matmul %1, %v batch [0] x [0] contract [3] x [1] : (tensor<2x5x6x6xf32>, tensor<2x6x4xf32>) -> tensor<2x5x6x4xf32>
  return %2 : tensor<2x5x6x4xf32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<2x6x4xf32>
// CHECK: %[[KS:.+]] = graph.reshape %[[K]] : (tensor<2x6x4xf32>) -> tensor<2x1x6x4xf32>
// CHECK: graph.attention %[[Q]], %[[KS]], %{{.+}} {causal = false, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<2x5x6x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x6x4xf32> {graph.role = #graph.input<"k">})
    -> (tensor<2x5x6x4xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.matmul %q, %k batch [0] x [0] contract [3] x [2] : (tensor<2x5x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x5x6x6xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %2 = graph.matmul %1, %k batch [0] x [0] contract [3] x [1] : (tensor<2x5x6x6xf32>, tensor<2x6x4xf32>) -> tensor<2x5x6x4xf32>
  return %2 : tensor<2x5x6x4xf32>
}

// -----

// A transpose whose batch is elsewhere is another matrix.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<4x6x1xf32>
// CHECK: %[[T:.+]] = graph.transpose %[[K]] {permutation = array<i64: 2, 1, 0>} : (tensor<4x6x1xf32>) -> tensor<1x6x4xf32>
// CHECK: %[[KS:.+]] = graph.reshape %[[T]] : (tensor<1x6x4xf32>) -> tensor<1x1x6x4xf32>
// CHECK: graph.attention %[[Q]], %[[KS]]
func.func @forward(%q: tensor<1x5x6x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<4x6x1xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x6x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x5x6x4xf32> {graph.role = #graph.output<"y">}) {
  %t = graph.transpose %k {permutation = array<i64: 0, 2, 1>} : (tensor<4x6x1xf32>) -> tensor<4x1x6xf32>
  %w = graph.reshape %t : (tensor<4x1x6xf32>) -> tensor<1x4x6xf32>
  %0 = graph.matmul %q, %w batch [0] x [0] contract [3] x [1] : (tensor<1x5x6x4xf32>, tensor<1x4x6xf32>) -> tensor<1x5x6x6xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<1x5x6x6xf32>) -> tensor<1x5x6x6xf32>
  %2 = graph.matmul %1, %v batch [0] x [0] contract [3] x [1] : (tensor<1x5x6x6xf32>, tensor<1x6x4xf32>) -> tensor<1x5x6x4xf32>
  return %2 : tensor<1x5x6x4xf32>
}

// -----

// What is transposed is read in dims of other sizes: it is not the key.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<1x4x6xf32>
// CHECK: %[[W:.+]] = graph.reshape %{{.+}} : (tensor<1x6x4xf32>) -> tensor<1x4x6xf32>
// CHECK: %[[T:.+]] = graph.transpose %[[W]] {permutation = array<i64: 0, 2, 1>} : (tensor<1x4x6xf32>) -> tensor<1x6x4xf32>
// CHECK: %[[KS:.+]] = graph.reshape %[[T]] : (tensor<1x6x4xf32>) -> tensor<1x1x6x4xf32>
// CHECK: graph.attention %[[Q]], %[[KS]]
func.func @forward(%q: tensor<1x5x6x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<1x4x6xf32> {graph.role = #graph.input<"k">},
    %v: tensor<1x6x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<1x5x6x4xf32> {graph.role = #graph.output<"y">}) {
  %t = graph.transpose %k {permutation = array<i64: 0, 2, 1>} : (tensor<1x4x6xf32>) -> tensor<1x6x4xf32>
  %w = graph.reshape %t : (tensor<1x6x4xf32>) -> tensor<1x4x6xf32>
  %0 = graph.matmul %q, %w batch [0] x [0] contract [3] x [1] : (tensor<1x5x6x4xf32>, tensor<1x4x6xf32>) -> tensor<1x5x6x6xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<1x5x6x6xf32>) -> tensor<1x5x6x6xf32>
  %2 = graph.matmul %1, %v batch [0] x [0] contract [3] x [1] : (tensor<1x5x6x6xf32>, tensor<1x6x4xf32>) -> tensor<1x5x6x4xf32>
  return %2 : tensor<1x5x6x4xf32>
}

// -----

// Keys that all samples share, too, are no heads that repeat within a sample.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}}, %[[K:[a-z0-9]+]]: tensor<3x4xf32>
// CHECK: %[[KS:.+]] = graph.broadcast %[[K]] {dims = array<i64: 2, 3>} : (tensor<3x4xf32>) -> tensor<2x2x3x4xf32>
// CHECK: graph.attention %[[Q]], %[[KS]]
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<2x2x3x4xf32> {graph.role = #graph.input<"v">}) -> (tensor<2x2x3x4xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.broadcast %k {dims = array<i64: 2, 3>} : (tensor<3x4xf32>) -> tensor<2x2x3x4xf32>
  %0 = graph.matmul %q, %s batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = graph.softmax %0 {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %2 = graph.matmul %1, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %2 : tensor<2x2x3x4xf32>
}
