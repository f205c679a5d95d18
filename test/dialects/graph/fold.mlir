// Products with one, quotients by it, and booleans joined to what decides
// nothing are their other operand; nothing else that looks like it is.

// RUN: polyrank-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @ones
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<2x3xf32>, %[[I:[a-z0-9]+]]: tensor<2xi64>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[I]]
func.func @ones(%x: tensor<2x3xf32>, %i: tensor<2xi64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %ones = graph.broadcast %one {dims = array<i64>} : (tensor<f32>) -> tensor<2x3xf32>
  %whole = graph.constant dense<1> : tensor<2xi64>
  %a = graph.mul %x, %ones : tensor<2x3xf32>
  %b = graph.mul %ones, %x : tensor<2x3xf32>
  %c = graph.div %x, %ones : tensor<2x3xf32>
  %d = graph.mul %i, %whole : tensor<2xi64>
  return %a, %b, %c, %d : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>
}

// One over x; numbers near one; ones of which one is none.

// CHECK-LABEL: func.func @others
// CHECK: graph.div
// CHECK: graph.mul
// CHECK: graph.mul
func.func @others(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %ones = graph.constant dense<1.0> : tensor<3xf32>
  %near = graph.constant dense<1.00000012> : tensor<3xf32>
  %some = graph.constant dense<[1.0, 1.0, 2.0]> : tensor<3xf32>
  %a = graph.div %ones, %x : tensor<3xf32>
  %b = graph.mul %x, %near : tensor<3xf32>
  %c = graph.mul %x, %some : tensor<3xf32>
  return %a, %b, %c : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @booleans
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<2x3xi1>)
// CHECK: %[[NONE:.*]] = graph.and %[[X]]
// CHECK: %[[ALL:.*]] = graph.or %[[X]]
// CHECK: return %[[X]], %[[X]], %[[X]], %[[NONE]], %[[ALL]]
func.func @booleans(%x: tensor<2x3xi1>) -> (tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>) {
  %true = graph.constant dense<true> : tensor<2x3xi1>
  %false = graph.constant dense<false> : tensor<2x3xi1>
  %a = graph.and %x, %true : tensor<2x3xi1>
  %b = graph.and %true, %x : tensor<2x3xi1>
  %c = graph.or %x, %false : tensor<2x3xi1>
  %d = graph.and %x, %false : tensor<2x3xi1>
  %e = graph.or %x, %true : tensor<2x3xi1>
  return %a, %b, %c, %d, %e : tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>
}

// A product of partial sums with a whole value has the type of the sums.

#mesh = #sharding.mesh<["a"=2]>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
!part = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
// CHECK-LABEL: func.func @layouts
// CHECK-SAME: (%[[X:[a-z0-9]+]]:
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @layouts(%x: !part) -> (!part, !part) {
  %ones = graph.constant dense<1.0> : !whole
  %a = graph.mul %x, %ones : (!part, !whole) -> !part
  %b = graph.mul %ones, %x : (!whole, !part) -> !part
  return %a, %b : !part, !part
}

// Conversions do not cancel: 1.001 is 1 in bf16, and not in f16.

// CHECK-LABEL: func.func @rounded
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<3xf32>)
// CHECK: %[[Y:.*]] = graph.mul %[[X]]
// CHECK: %[[THERE:.*]] = graph.convert %[[X]]
// CHECK: %[[BACK:.*]] = graph.convert %[[THERE]]
// CHECK: return %[[X]], %[[Y]], %[[BACK]]
func.func @rounded(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %near = graph.constant dense<1.001> : tensor<3xf32>
  %brain = graph.convert %near : (tensor<3xf32>) -> tensor<3xbf16>
  %one = graph.convert %brain : (tensor<3xbf16>) -> tensor<3xf32>
  %half = graph.convert %near : (tensor<3xf32>) -> tensor<3xf16>
  %other = graph.convert %half : (tensor<3xf16>) -> tensor<3xf32>
  %a = graph.mul %x, %one : tensor<3xf32>
  %b = graph.mul %x, %other : tensor<3xf32>
  %there = graph.convert %x : (tensor<3xf32>) -> tensor<3xbf16>
  %back = graph.convert %there : (tensor<3xbf16>) -> tensor<3xf32>
  return %a, %b, %back : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
