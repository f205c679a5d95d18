// Both forms of gelu are found in parts, and nothing else is.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[Y:.+]] = graph.gelu erf %{{.+}} : tensor<4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
  %root = graph.constant dense<1.41421356> : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<4xf32>
  %half = graph.constant dense<0.5> : tensor<4xf32>
  %0 = graph.div %x, %root : tensor<4xf32>
  %1 = graph.erf %0 : tensor<4xf32>
  %2 = graph.add %1, %one : tensor<4xf32>
  %3 = graph.mul %x, %2 : tensor<4xf32>
  %4 = graph.mul %3, %half : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[Y:.+]] = graph.gelu tanh %{{.+}} : tensor<4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
  %half = graph.constant dense<0.5> : tensor<4xf32>
  %three = graph.constant dense<3.0> : tensor<4xf32>
  %cubic = graph.constant dense<0.044715> : tensor<4xf32>
  %slope = graph.constant dense<0.7978845834732056> : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<4xf32>
  %0 = graph.mul %x, %half : tensor<4xf32>
  %1 = graph.pow %x, %three : tensor<4xf32>
  %2 = graph.mul %1, %cubic : tensor<4xf32>
  %3 = graph.add %x, %2 : tensor<4xf32>
  %4 = graph.mul %3, %slope : tensor<4xf32>
  %5 = graph.tanh %4 : tensor<4xf32>
  %6 = graph.add %5, %one : tensor<4xf32>
  %7 = graph.mul %0, %6 : tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// The root of 2.25 is not that of 2.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.gelu
// CHECK: graph.erf
// CHECK: return
func.func @forward(%x: tensor<4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
  %root = graph.constant dense<1.5> : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<4xf32>
  %half = graph.constant dense<0.5> : tensor<4xf32>
  %0 = graph.div %x, %root : tensor<4xf32>
  %1 = graph.erf %0 : tensor<4xf32>
  %2 = graph.add %1, %one : tensor<4xf32>
  %3 = graph.mul %x, %2 : tensor<4xf32>
  %4 = graph.mul %3, %half : tensor<4xf32>
  return %4 : tensor<4xf32>
}
