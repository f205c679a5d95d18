// RUN: polyrank-opt %s --print-sharding-rules | FileCheck %s
// The rule of each op stands on it as text; test/dialects/graph/sharding-rules.mlir
// has that of every kind of op.

// CHECK: graph.matmul {{.*}}graph.sharding_rule = "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k} sum=(alone, alone)"
func.func @product(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
