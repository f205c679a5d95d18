// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global | FileCheck %s --check-prefix=VALUE
// A scan hands what it carries from element to element, from the first or the
// last on.

// VALUE-LABEL: @sums
// VALUE-NEXT: result0: tensor<3x2xf32> [10, 20, 11, 22, 14, 26]
// VALUE-NEXT: result1: tensor<2xf32> [19, 32]
// CHECK-LABEL: func.func @sums
func.func @sums() -> (tensor<3x2xf32>, tensor<2xf32>) {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %h = graph.constant dense<[10.0, 20.0]> : tensor<2xf32>
  // CHECK: graph.scan 3 of(%{{.+}}) carry(%{{.+}}) uses() {
  // CHECK-NEXT: ^bb0(%{{.+}}: tensor<2xf32>, %{{.+}}: tensor<2xf32>):
  // CHECK: graph.scan_yield stack(%{{.+}}) carry(%{{.+}}) : tensor<2xf32>, tensor<2xf32>
  %before, %last = graph.scan 3 of(%x) carry(%h) uses() {
  ^bb0(%e: tensor<2xf32>, %s: tensor<2xf32>):
    %n = graph.add %s, %e : tensor<2xf32>
    graph.scan_yield stack(%s) carry(%n) : tensor<2xf32>, tensor<2xf32>
  } : (tensor<3x2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>)
  return %before, %last : tensor<3x2xf32>, tensor<2xf32>
}

// VALUE-LABEL: @backward
// VALUE-NEXT: result0: tensor<3xf32> [22, 10, 4]
// CHECK-LABEL: func.func @backward
func.func @backward() -> tensor<3xf32> {
  %x = graph.constant dense<[2.0, 2.0, 4.0]> : tensor<3xf32>
  %h = graph.constant dense<0.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  // CHECK: graph.scan 3 reversed of(%{{.+}}) carry(%{{.+}}) uses(%{{.+}}) {
  %all, %last = graph.scan 3 reversed of(%x) carry(%h) uses(%two) {
  ^bb0(%e: tensor<f32>, %s: tensor<f32>, %f: tensor<f32>):
    %d = graph.mul %s, %f : tensor<f32>
    %n = graph.add %d, %e : tensor<f32>
    graph.scan_yield stack(%n) carry(%n) : tensor<f32>, tensor<f32>
  } : (tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32>, tensor<f32>)
  return %all : tensor<3xf32>
}
