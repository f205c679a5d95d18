// x sigmoid(x) is silu; another factor leaves the sigmoid where it is.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[Z:[a-z0-9]+]]: tensor<4xf32>
// CHECK: %[[S:.+]] = graph.sigmoid %[[X]]
// CHECK: %[[Y:.+]] = graph.silu %[[X]] : tensor<4xf32>
// CHECK: %[[N:.+]] = graph.mul %[[S]], %[[Z]]
// CHECK: return %[[Y]], %[[N]]
func.func @forward(%x: tensor<4xf32> {graph.role = #graph.input<"x">}, %z: tensor<4xf32> {graph.role = #graph.input<"z">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}, tensor<4xf32> {graph.role = #graph.output<"n">}) {
  %0 = graph.sigmoid %x : tensor<4xf32>
  %1 = graph.mul %0, %x : tensor<4xf32>
  %2 = graph.mul %0, %z : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
