// Activations lie in memory as products have them.

// RUN: polyrank-opt %s -split-input-file --choose-orders | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --choose-orders=always | FileCheck %s --check-prefix=ALWAYS

// Two convolutions with what stands between them: a normalization by channels,
// a residual sum, a pad and a slice. No transpose is left.

// CHECK-LABEL: func.func @network
// CHECK-NOT: graph.transpose
// CHECK: %[[Y:.+]] = graph.matmul %{{.+}}, %{{.+}} batch [] x [] contract [1, 2] x [1, 2]
// CHECK: %[[SUM:.+]] = graph.reduce sum %{{.+}} over [0, 1, 2] : (tensor<2x5x5x3xf32>) -> tensor<3xf32>
// CHECK: graph.broadcast %[[SUM]] {dims = array<i64: 3>} : (tensor<3xf32>) -> tensor<2x5x5x3xf32>
// CHECK: graph.slice %{{.+}} {limits = array<i64: 2, 5, 4, 3>, starts = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, 1>}
// CHECK: graph.pad %{{.+}} {high = array<i64: 0, 0, 1, 0>, interior = array<i64: 0, 0, 0, 0>, low = array<i64: 0, 0, 1, 0>
// CHECK: graph.concat %{{.+}}, %{{.+}} {dim = 3 : i64} : (tensor<2x5x5x3xf32>, tensor<2x5x5x3xf32>) -> tensor<2x5x5x6xf32>
// CHECK: graph.unfold %{{.+}} {{.*}}dim = 1 : i64{{.*}} : (tensor<2x5x5x6xf32>) -> tensor<2x3x5x6x3xf32>
// CHECK: graph.unfold %{{.+}} {{.*}}dim = 2 : i64{{.*}} : (tensor<2x3x5x6x3xf32>) -> tensor<2x3x3x6x3x3xf32>
// CHECK: %[[Z:.+]] = graph.matmul
// CHECK: return %[[Z]]
func.func @network(%x: tensor<50x4x2xf32>, %w: tensor<3x4x2xf32>, %v: tensor<7x6x3x3xf32>) -> tensor<2x3x3x7xf32> {
  %y = graph.matmul %x, %w batch [] x [] contract [1, 2] x [1, 2] : (tensor<50x4x2xf32>, tensor<3x4x2xf32>) -> tensor<50x3xf32>
  %t = graph.reshape %y : (tensor<50x3xf32>) -> tensor<2x5x5x3xf32>
  %a = graph.transpose %t {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x5x3xf32>) -> tensor<2x3x5x5xf32>
  %sum = graph.reduce sum %a over [0, 2, 3] : (tensor<2x3x5x5xf32>) -> tensor<3xf32>
  %b = graph.broadcast %sum {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3x5x5xf32>
  %n = graph.sub %a, %b : tensor<2x3x5x5xf32>
  %inner = graph.slice %n {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 2, 3, 5, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x3xf32>
  %p = graph.pad %inner {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 0, 1>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f64} : (tensor<2x3x5x3xf32>) -> tensor<2x3x5x5xf32>
  %c = graph.concat %p, %a {dim = 1 : i64} : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x6x5x5xf32>
  %u = graph.unfold %c {dim = 2 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<2x6x5x5xf32>) -> tensor<2x6x3x5x3xf32>
  %uu = graph.unfold %u {dim = 3 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<2x6x3x5x3xf32>) -> tensor<2x6x3x3x3x3xf32>
  %q = graph.transpose %uu {permutation = array<i64: 0, 2, 3, 1, 4, 5>} : (tensor<2x6x3x3x3x3xf32>) -> tensor<2x3x3x6x3x3xf32>
  %z = graph.matmul %q, %v batch [] x [] contract [3, 4, 5] x [1, 2, 3] : (tensor<2x3x3x6x3x3xf32>, tensor<7x6x3x3xf32>) -> tensor<2x3x3x7xf32>
  return %z : tensor<2x3x3x7xf32>
}

// -----

// One transpose between a product and what needs the order that is written:
// nothing is gained, and nothing is changed.

// CHECK-LABEL: func.func @nothing_gained
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.relu %{{.+}} : tensor<3x4xf32>
// ALWAYS-LABEL: func.func @nothing_gained
// ALWAYS-NEXT: graph.matmul
// ALWAYS-NEXT: graph.relu %{{.+}} : tensor<4x3xf32>
// ALWAYS-NEXT: graph.transpose
func.func @nothing_gained(%x: tensor<4x2xf32>, %w: tensor<2x3xf32>) -> tensor<3x4xf32> {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %r = graph.relu %t : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// The first of equal elements is that in the order which is written: over dims
// in another order, the reduction is computed as it stands.

// ALWAYS-LABEL: func.func @first
// ALWAYS: %[[T:.+]] = graph.transpose %{{.+}} : (tensor<4x3x5xf32>) -> tensor<5x3x4xf32>
// ALWAYS-NEXT: graph.reduce max %[[T]] over [1, 2] {first}
// ALWAYS: graph.reduce max %{{.+}} over [0, 1] : (tensor<4x3x5xf32>) -> tensor<5xf32>
func.func @first(%x: tensor<12x2xf32>, %w: tensor<2x5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<12x2xf32>, tensor<2x5xf32>) -> tensor<12x5xf32>
  %s = graph.reshape %y : (tensor<12x5xf32>) -> tensor<4x3x5xf32>
  %t = graph.transpose %s {permutation = array<i64: 2, 1, 0>} : (tensor<4x3x5xf32>) -> tensor<5x3x4xf32>
  %r = graph.relu %t : tensor<5x3x4xf32>
  %m = graph.reduce max %r over [1, 2] {first} : (tensor<5x3x4xf32>) -> tensor<5xf32>
  %n = graph.reduce max %r over [1, 2] : (tensor<5x3x4xf32>) -> tensor<5xf32>
  return %m, %n : tensor<5xf32>, tensor<5xf32>
}

// -----

// Dims of size 1 go to the front of memory; indices and constants are made in
// the order that is needed.

// ALWAYS-LABEL: func.func @made_anew
// ALWAYS: graph.iota dim = 1 : tensor<1x4x3xf32>
// ALWAYS: graph.constant dense<2.000000e+00> : tensor<1x4x3xf32>
// ALWAYS-NOT: graph.transpose
// ALWAYS: %[[BACK:.+]] = graph.transpose
// ALWAYS-NEXT: return %[[BACK]]
func.func @made_anew(%x: tensor<4x2xf32>, %w: tensor<2x3xf32>) -> tensor<3x1x4xf32> {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %s = graph.reshape %t : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
  %i = graph.iota dim = 2 : tensor<3x1x4xf32>
  %two = graph.constant dense<2.0> : tensor<3x1x4xf32>
  %a = graph.add %s, %i : tensor<3x1x4xf32>
  %m = graph.mul %a, %two : tensor<3x1x4xf32>
  return %m : tensor<3x1x4xf32>
}

// -----

// Integers are made anew as they were: with their sign, and one that no double
// holds is transposed as it stands.

// ALWAYS-LABEL: func.func @integers_made_anew
// ALWAYS-DAG: graph.constant dense<-9223372036854775808> : tensor<4x3xi64>
// ALWAYS-DAG: graph.constant dense<9223372036854775807> : tensor<4x3xi64>
// ALWAYS-DAG: graph.constant dense<-3> : tensor<4x3xi64>
// ALWAYS-DAG: graph.constant dense<9007199254740993> : tensor<3x4xi64>
func.func @integers_made_anew(%x: tensor<4x2xf32>, %w: tensor<2x3xf32>) -> tensor<3x4xi64> {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %n = graph.convert %t : (tensor<3x4xf32>) -> tensor<3x4xi64>
  %least = graph.constant dense<-9223372036854775808> : tensor<3x4xi64>
  %most = graph.constant dense<9223372036854775807> : tensor<3x4xi64>
  %negative = graph.constant dense<-3> : tensor<3x4xi64>
  %odd = graph.constant dense<9007199254740993> : tensor<3x4xi64>
  %a = graph.max %n, %least : tensor<3x4xi64>
  %b = graph.min %a, %most : tensor<3x4xi64>
  %c = graph.mul %b, %negative : tensor<3x4xi64>
  %d = graph.add %c, %odd : tensor<3x4xi64>
  return %d : tensor<3x4xi64>
}

// -----

// A window of one element is a dim of size 1, but the last one of a fold: that
// stays as it is written.

// ALWAYS-LABEL: func.func @windows_of_one
// ALWAYS: graph.fold %arg0 {{.*}}dim = 2 : i64, {{.*}} : (tensor<4x2x5x1xf32>) -> tensor<4x2x4xf32>
func.func @windows_of_one(%x: tensor<4x2x5x1xf32>, %i: tensor<4x1x2x1xi64>) -> tensor<4x1x2x1xf32> {
  %0 = graph.fold %x {dim = 2 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<4x2x5x1xf32>) -> tensor<4x2x4xf32>
  %1 = graph.reshape %0 : (tensor<4x2x4xf32>) -> tensor<4x2x1x4xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 3, 2, 1, 0>} : (tensor<4x2x1x4xf32>) -> tensor<4x1x2x4xf32>
  %3 = graph.gather %2, %i {axis = 3 : i64, batch_dims = 3 : i64} : (tensor<4x1x2x4xf32>, tensor<4x1x2x1xi64>) -> tensor<4x1x2x1xf32>
  return %3 : tensor<4x1x2x1xf32>
}
