// Logarithms of what may vanish or overflow get a form that does neither: no
// logarithm of a sigmoid, of a softmax or of an unbounded exponential is left.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// log sigmoid(x) = -(max(-x, 0) + log(1 + e^-|x|)), log softmax(x) = x - max -
// log sum e^(x - max), log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK-NOT: graph.sigmoid
// CHECK-NOT: graph.softmax
// CHECK: %[[NEG:.+]] = graph.neg %[[X]]
// CHECK: %[[ABS:.+]] = graph.abs
// CHECK: %[[FAR:.+]] = graph.neg %[[ABS]]
// CHECK: %[[SMALL:.+]] = graph.exp %[[FAR]]
// CHECK: %[[HALF:.+]] = graph.max %[[NEG]], %{{.+}}
// CHECK: %[[MORE:.+]] = graph.add %[[SMALL]], %{{.+}}
// CHECK: %[[LOG:.+]] = graph.log %[[MORE]]
// CHECK: %[[PLUS:.+]] = graph.add %[[HALF]], %[[LOG]]
// CHECK: %[[A:.+]] = graph.neg %[[PLUS]]
// CHECK: %[[TOP:.+]] = graph.reduce max %[[X]] over [1]
// CHECK: %[[BELOW:.+]] = graph.sub %[[X]], %{{.+}}
// CHECK: %[[SUM:.+]] = graph.reduce sum %{{.+}} over [1]
// CHECK: graph.log %[[SUM]] : tensor<2xf32>
// CHECK: %[[B:.+]] = graph.sub %[[BELOW]], %{{.+}}
// CHECK: %[[UPPER:.+]] = graph.max %[[X]], %{{.+}}
// CHECK: %[[C:.+]] = graph.add %[[UPPER]], %{{.+}}
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}, tensor<2x4xf32> {graph.role = #graph.output<"b">}, tensor<2x4xf32> {graph.role = #graph.output<"c">}) {
  %one = graph.constant dense<1.0> : tensor<2x4xf32>
  %0 = graph.sigmoid %x : tensor<2x4xf32>
  %a = graph.log %0 : tensor<2x4xf32>
  %1 = graph.softmax %x {dim = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = graph.log %1 : tensor<2x4xf32>
  %2 = graph.exp %x : tensor<2x4xf32>
  %3 = graph.add %2, %one : tensor<2x4xf32>
  %c = graph.log %3 : tensor<2x4xf32>
  return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
