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

// -----

// Both logarithms of binary_cross_entropy stay, bounded as a select or as a
// maximum, and their gradient is (1 - p) / max((1 - p) p, 1e-12).

// CHECK-LABEL: func.func @forward
// CHECK: %[[P:.+]] = graph.sigmoid
// CHECK: %[[LOG:.+]] = graph.log %[[P]]
// CHECK: %[[BOUNDED:.+]] = graph.select %{{.+}}, %{{.+}}, %[[LOG]]
// CHECK: %[[CONSTANT:.+]] = graph.detach %[[P]]
// CHECK: %[[REST:.+]] = graph.sub %{{.+}}, %[[CONSTANT]]
// CHECK: %[[BOTH:.+]] = graph.mul %[[REST]], %[[CONSTANT]]
// CHECK: %[[LEAST:.+]] = graph.constant dense<{{.+}}E-13> : tensor<2x4xf32>
// CHECK: %[[MOST:.+]] = graph.max %[[BOTH]], %[[LEAST]]
// CHECK: %[[SLOPE:.+]] = graph.div %[[REST]], %[[MOST]]
// CHECK: %[[VALUE:.+]] = graph.detach %[[BOUNDED]]
// CHECK: %[[NONE:.+]] = graph.sub %[[P]], %[[CONSTANT]]
// CHECK: %[[CHANGE:.+]] = graph.mul %[[NONE]], %[[SLOPE]]
// CHECK: %[[A:.+]] = graph.add %[[VALUE]], %[[CHANGE]]
// CHECK: graph.log
// CHECK: graph.detach
// CHECK: %[[B:.+]] = graph.add
// CHECK: return %[[A]], %[[B]]
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}, tensor<2x4xf32> {graph.role = #graph.output<"b">}) {
  %one = graph.constant dense<1.0> : tensor<2x4xf32>
  %least = graph.constant dense<-100.0> : tensor<2x4xf32>
  %p = graph.sigmoid %x : tensor<2x4xf32>
  %0 = graph.log %p : tensor<2x4xf32>
  %1 = graph.compare lt %0, %least : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  %a = graph.select %1, %least, %0 : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.neg %p : tensor<2x4xf32>
  %3 = graph.add %2, %one : tensor<2x4xf32>
  %4 = graph.log %3 : tensor<2x4xf32>
  %b = graph.max %4, %least : tensor<2x4xf32>
  return %a, %b : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// A bound by itself is the user's, and is none of a probability's.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.detach
// CHECK: %[[LOG:.+]] = graph.log
// CHECK: graph.max %{{.+}}, %{{.+}}
// CHECK-NOT: graph.detach
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}) {
  %least = graph.constant dense<-100.0> : tensor<2x4xf32>
  %0 = graph.log %x : tensor<2x4xf32>
  %a = graph.max %0, %least : tensor<2x4xf32>
  return %a : tensor<2x4xf32>
}

// -----

// log1p is imported as 2 atanh(z / (z + 2)). That of binary_cross_entropy has a
// bound and the logarithm of p beside it, and is one of its two logarithms; that
// of e^x is a softplus.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.atanh
// CHECK: %[[REST:.+]] = graph.add
// CHECK: %[[LOG:.+]] = graph.log %[[REST]]
// CHECK: %[[BOUNDED:.+]] = graph.max %[[LOG]]
// CHECK: graph.detach %[[REST]]
// CHECK: graph.detach %[[BOUNDED]]
// CHECK-NOT: graph.atanh
func.func @forward(%p: tensor<2x4xf32> {graph.role = #graph.input<"p">}, %x: tensor<2x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}, tensor<2x4xf32> {graph.role = #graph.output<"b">}, tensor<2x4xf32> {graph.role = #graph.output<"c">}) {
  %two = graph.constant dense<2.0> : tensor<2x4xf32>
  %least = graph.constant dense<-100.0> : tensor<2x4xf32>
  %z = graph.neg %p : tensor<2x4xf32>
  %0 = graph.add %z, %two : tensor<2x4xf32>
  %1 = graph.div %z, %0 : tensor<2x4xf32>
  %2 = graph.atanh %1 : tensor<2x4xf32>
  %3 = graph.mul %2, %two : tensor<2x4xf32>
  %a = graph.max %3, %least : tensor<2x4xf32>
  %4 = graph.log %p : tensor<2x4xf32>
  %b = graph.max %4, %least : tensor<2x4xf32>
  %e = graph.exp %x : tensor<2x4xf32>
  %5 = graph.add %e, %two : tensor<2x4xf32>
  %6 = graph.div %e, %5 : tensor<2x4xf32>
  %7 = graph.atanh %6 : tensor<2x4xf32>
  %c = graph.mul %7, %two : tensor<2x4xf32>
  return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Any other log1p keeps the digits of a small argument.

// CHECK-LABEL: func.func @forward
// CHECK: graph.atanh
// CHECK-NOT: graph.log
func.func @forward(%p: tensor<2x4xf32> {graph.role = #graph.input<"p">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}) {
  %two = graph.constant dense<2.0> : tensor<2x4xf32>
  %z = graph.neg %p : tensor<2x4xf32>
  %0 = graph.add %z, %two : tensor<2x4xf32>
  %1 = graph.div %z, %0 : tensor<2x4xf32>
  %2 = graph.atanh %1 : tensor<2x4xf32>
  %a = graph.mul %2, %two : tensor<2x4xf32>
  return %a : tensor<2x4xf32>
}
