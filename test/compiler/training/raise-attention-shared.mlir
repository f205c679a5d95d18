// Ops that share their operands are read once for each path to them, of which there
// are 2^40 here: what is too large to read stays a bias and a mask as it is.

// RUN: polyrank-opt %s --raise-composites | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK: graph.attention {{.*}} bias %{{[a-z0-9]+}} mask %{{[a-z0-9]+}} masked replace
func.func @forward(%q: tensor<2x2x3x4xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x3x4xf32> {graph.role = #graph.input<"k">},
    %v: tensor<2x2x3x5xf32> {graph.role = #graph.input<"v">}, %b: tensor<2x2x3x3xf32> {graph.role = #graph.input<"b">},
    %m: tensor<2x2x3x3xi1> {graph.role = #graph.input<"m">}) -> (tensor<2x2x3x5xf32> {graph.role = #graph.output<"y">}) {
  %s = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %x0 = graph.add %b, %b : tensor<2x2x3x3xf32>
  %x1 = graph.add %x0, %x0 : tensor<2x2x3x3xf32>
  %x2 = graph.add %x1, %x1 : tensor<2x2x3x3xf32>
  %x3 = graph.add %x2, %x2 : tensor<2x2x3x3xf32>
  %x4 = graph.add %x3, %x3 : tensor<2x2x3x3xf32>
  %x5 = graph.add %x4, %x4 : tensor<2x2x3x3xf32>
  %x6 = graph.add %x5, %x5 : tensor<2x2x3x3xf32>
  %x7 = graph.add %x6, %x6 : tensor<2x2x3x3xf32>
  %x8 = graph.add %x7, %x7 : tensor<2x2x3x3xf32>
  %x9 = graph.add %x8, %x8 : tensor<2x2x3x3xf32>
  %x10 = graph.add %x9, %x9 : tensor<2x2x3x3xf32>
  %x11 = graph.add %x10, %x10 : tensor<2x2x3x3xf32>
  %x12 = graph.add %x11, %x11 : tensor<2x2x3x3xf32>
  %x13 = graph.add %x12, %x12 : tensor<2x2x3x3xf32>
  %x14 = graph.add %x13, %x13 : tensor<2x2x3x3xf32>
  %x15 = graph.add %x14, %x14 : tensor<2x2x3x3xf32>
  %x16 = graph.add %x15, %x15 : tensor<2x2x3x3xf32>
  %x17 = graph.add %x16, %x16 : tensor<2x2x3x3xf32>
  %x18 = graph.add %x17, %x17 : tensor<2x2x3x3xf32>
  %x19 = graph.add %x18, %x18 : tensor<2x2x3x3xf32>
  %x20 = graph.add %x19, %x19 : tensor<2x2x3x3xf32>
  %x21 = graph.add %x20, %x20 : tensor<2x2x3x3xf32>
  %x22 = graph.add %x21, %x21 : tensor<2x2x3x3xf32>
  %x23 = graph.add %x22, %x22 : tensor<2x2x3x3xf32>
  %x24 = graph.add %x23, %x23 : tensor<2x2x3x3xf32>
  %x25 = graph.add %x24, %x24 : tensor<2x2x3x3xf32>
  %x26 = graph.add %x25, %x25 : tensor<2x2x3x3xf32>
  %x27 = graph.add %x26, %x26 : tensor<2x2x3x3xf32>
  %x28 = graph.add %x27, %x27 : tensor<2x2x3x3xf32>
  %x29 = graph.add %x28, %x28 : tensor<2x2x3x3xf32>
  %x30 = graph.add %x29, %x29 : tensor<2x2x3x3xf32>
  %x31 = graph.add %x30, %x30 : tensor<2x2x3x3xf32>
  %x32 = graph.add %x31, %x31 : tensor<2x2x3x3xf32>
  %x33 = graph.add %x32, %x32 : tensor<2x2x3x3xf32>
  %x34 = graph.add %x33, %x33 : tensor<2x2x3x3xf32>
  %x35 = graph.add %x34, %x34 : tensor<2x2x3x3xf32>
  %x36 = graph.add %x35, %x35 : tensor<2x2x3x3xf32>
  %x37 = graph.add %x36, %x36 : tensor<2x2x3x3xf32>
  %x38 = graph.add %x37, %x37 : tensor<2x2x3x3xf32>
  %x39 = graph.add %x38, %x38 : tensor<2x2x3x3xf32>
  %y0 = graph.and %m, %m : tensor<2x2x3x3xi1>
  %y1 = graph.and %y0, %y0 : tensor<2x2x3x3xi1>
  %y2 = graph.and %y1, %y1 : tensor<2x2x3x3xi1>
  %y3 = graph.and %y2, %y2 : tensor<2x2x3x3xi1>
  %y4 = graph.and %y3, %y3 : tensor<2x2x3x3xi1>
  %y5 = graph.and %y4, %y4 : tensor<2x2x3x3xi1>
  %y6 = graph.and %y5, %y5 : tensor<2x2x3x3xi1>
  %y7 = graph.and %y6, %y6 : tensor<2x2x3x3xi1>
  %y8 = graph.and %y7, %y7 : tensor<2x2x3x3xi1>
  %y9 = graph.and %y8, %y8 : tensor<2x2x3x3xi1>
  %y10 = graph.and %y9, %y9 : tensor<2x2x3x3xi1>
  %y11 = graph.and %y10, %y10 : tensor<2x2x3x3xi1>
  %y12 = graph.and %y11, %y11 : tensor<2x2x3x3xi1>
  %y13 = graph.and %y12, %y12 : tensor<2x2x3x3xi1>
  %y14 = graph.and %y13, %y13 : tensor<2x2x3x3xi1>
  %y15 = graph.and %y14, %y14 : tensor<2x2x3x3xi1>
  %y16 = graph.and %y15, %y15 : tensor<2x2x3x3xi1>
  %y17 = graph.and %y16, %y16 : tensor<2x2x3x3xi1>
  %y18 = graph.and %y17, %y17 : tensor<2x2x3x3xi1>
  %y19 = graph.and %y18, %y18 : tensor<2x2x3x3xi1>
  %y20 = graph.and %y19, %y19 : tensor<2x2x3x3xi1>
  %y21 = graph.and %y20, %y20 : tensor<2x2x3x3xi1>
  %y22 = graph.and %y21, %y21 : tensor<2x2x3x3xi1>
  %y23 = graph.and %y22, %y22 : tensor<2x2x3x3xi1>
  %y24 = graph.and %y23, %y23 : tensor<2x2x3x3xi1>
  %y25 = graph.and %y24, %y24 : tensor<2x2x3x3xi1>
  %y26 = graph.and %y25, %y25 : tensor<2x2x3x3xi1>
  %y27 = graph.and %y26, %y26 : tensor<2x2x3x3xi1>
  %y28 = graph.and %y27, %y27 : tensor<2x2x3x3xi1>
  %y29 = graph.and %y28, %y28 : tensor<2x2x3x3xi1>
  %y30 = graph.and %y29, %y29 : tensor<2x2x3x3xi1>
  %y31 = graph.and %y30, %y30 : tensor<2x2x3x3xi1>
  %y32 = graph.and %y31, %y31 : tensor<2x2x3x3xi1>
  %y33 = graph.and %y32, %y32 : tensor<2x2x3x3xi1>
  %y34 = graph.and %y33, %y33 : tensor<2x2x3x3xi1>
  %y35 = graph.and %y34, %y34 : tensor<2x2x3x3xi1>
  %y36 = graph.and %y35, %y35 : tensor<2x2x3x3xi1>
  %y37 = graph.and %y36, %y36 : tensor<2x2x3x3xi1>
  %y38 = graph.and %y37, %y37 : tensor<2x2x3x3xi1>
  %y39 = graph.and %y38, %y38 : tensor<2x2x3x3xi1>
  %t = graph.add %x39, %s : tensor<2x2x3x3xf32>
  %low = graph.constant dense<-9.0> : tensor<2x2x3x3xf32>
  %u = graph.select %y39, %t, %low : (tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = graph.softmax %u {dim = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = graph.matmul %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x2x3x3xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  return %y : tensor<2x2x3x5xf32>
}
