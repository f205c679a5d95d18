// RUN: polyrank-opt %s --print-sharding-rules | FileCheck %s
// A rule is tested by reading it.

// CHECK-LABEL: @rules
func.func @rules(%x: tensor<4x3xf32>, %w: tensor<3x6xf32>, %t: tensor<8x4xf32>, %i: tensor<2x3xi64>,
                 %h: tensor<2x12x5xf32>, %g: tensor<3xf32>) {
  // CHECK: graph.matmul {{.*}} "([i, k], [k, j])->([i, j]) {i=4, j=6, k=3} reduction={k} sum=(alone, alone)"
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x3xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.gather {{.*}} "([i, j], [k, l])->([k, l, j]) {i=8, j=4, k=2, l=3} indexed={i} sum=(any, none) max=(any, none) min=(any, none)"
  %1 = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: graph.reshape {{.*}} "([i, jk, l])->([i, j, k, l]) {i=2, j=3, k=4, l=5} sum=(any) max=(any) min=(any)"
  %2 = graph.reshape %h : (tensor<2x12x5xf32>) -> tensor<2x3x4x5xf32>
  // CHECK: graph.add {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(together, together) max=(alone, alone) min=(alone, alone)"
  %3 = graph.add %x, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.reduce {{.*}} "([i, j])->([i]) {i=4, j=3} reduction={j:max} max=(any)"
  %4 = graph.reduce max %x over [1] : (tensor<4x3xf32>) -> tensor<4xf32>
  // CHECK: graph.softmax {{.*}} "([i, j])->([i, j]) {i=4, j=3} composite={j}"
  %5 = graph.softmax %x {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.layer_norm {{.*}} composite={
  %6:3 = graph.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
