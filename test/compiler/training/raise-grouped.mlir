// RUN: polyrank-opt %s --raise-composites | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz >/dev/null
// RUN: polyrank-opt %s --raise-composites --evaluate=global --expect=%t.npz >/dev/null

// As transformers exports experts (batched_mm): a copy of a matrix for each row.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[W:.+]]: tensor<3x8x4xf32> {{.*}}, %[[X:.+]]: tensor<3x2x4xf32> {{.*}}, %[[I:.+]]: tensor<6xi32>
// CHECK-DAG: %[[R:.+]] = graph.reshape %[[X]] : (tensor<3x2x4xf32>) -> tensor<6x4x1xf32>
// CHECK-DAG: %[[ROWS:.+]] = graph.reshape %[[R]] : (tensor<6x4x1xf32>) -> tensor<6x4xf32>
// CHECK-DAG: %[[T:.+]] = graph.transpose %[[W]] {permutation = array<i64: 0, 2, 1>}
// CHECK-DAG: %[[G:.+]] = graph.convert %[[I]] {{.*}}-> tensor<6xi64>
// CHECK-DAG: %[[IDS:.+]] = graph.iota
// CHECK: %[[Y:.+]] = graph.grouped_matmul %[[ROWS]], %[[T]], %[[G]], %[[IDS]]
// CHECK-NOT: graph.gather
// CHECK-NOT: graph.matmul
func.func @forward(%w: tensor<3x8x4xf32> {graph.role = #graph.input<"w">}, %x: tensor<3x2x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<6xi32> {graph.role = #graph.input<"i">}) -> (tensor<6x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3x8x4xf32>, tensor<6xi32>) -> tensor<6x8x4xf32>
  %r = graph.reshape %x : (tensor<3x2x4xf32>) -> tensor<6x4x1xf32>
  %m = graph.matmul %p, %r batch [0] x [0] contract [2] x [1] : (tensor<6x8x4xf32>, tensor<6x4x1xf32>) -> tensor<6x8x1xf32>
  %y = graph.reshape %m : (tensor<6x8x1xf32>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}
