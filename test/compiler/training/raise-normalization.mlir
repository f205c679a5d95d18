// Normalizations of rows are found in parts.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4xf32>{{.*}}, %[[G:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[B:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.+]], %{{.+}}, %{{.+}} = graph.layer_norm %[[X]], %[[G]], %[[B]] {epsilon = 9.999999{{[0-9]+}}E-6 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}, %g: tensor<4xf32> {graph.role = #graph.input<"g">}, %b: tensor<4xf32> {graph.role = #graph.input<"b">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %four = graph.constant dense<4.0> : tensor<2x1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<2x1xf32>
  %s = graph.reduce sum %x over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %s1 = graph.reshape %s : (tensor<2xf32>) -> tensor<2x1xf32>
  %m = graph.div %s1, %four : tensor<2x1xf32>
  %mr = graph.reshape %m : (tensor<2x1xf32>) -> tensor<2xf32>
  %mb = graph.broadcast %mr {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %d = graph.sub %x, %mb : tensor<2x4xf32>
  %q = graph.mul %d, %d : tensor<2x4xf32>
  %v = graph.reduce sum %q over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %v1 = graph.reshape %v : (tensor<2xf32>) -> tensor<2x1xf32>
  %va = graph.div %v1, %four : tensor<2x1xf32>
  %ve = graph.add %va, %e : tensor<2x1xf32>
  %sd = graph.sqrt %ve : tensor<2x1xf32>
  %sr = graph.reshape %sd : (tensor<2x1xf32>) -> tensor<2xf32>
  %sb = graph.broadcast %sr {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %n = graph.div %d, %sb : tensor<2x4xf32>
  %gb = graph.broadcast %g {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %bb = graph.broadcast %b {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %w = graph.mul %n, %gb : tensor<2x4xf32>
  %y = graph.add %w, %bb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4xf32>{{.*}}, %[[G:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.+]], %{{.+}} = graph.rms_norm %[[X]], %[[G]] {epsilon = 9.999999{{[0-9]+}}E-6 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}, %g: tensor<4xf32> {graph.role = #graph.input<"g">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %four = graph.constant dense<4.0> : tensor<2x1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<2x1xf32>
  %q = graph.mul %x, %x : tensor<2x4xf32>
  %v = graph.reduce sum %q over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %v1 = graph.reshape %v : (tensor<2xf32>) -> tensor<2x1xf32>
  %va = graph.div %v1, %four : tensor<2x1xf32>
  %ve = graph.add %va, %e : tensor<2x1xf32>
  %sd = graph.rsqrt %ve : tensor<2x1xf32>
  %sr = graph.reshape %sd : (tensor<2x1xf32>) -> tensor<2xf32>
  %sb = graph.broadcast %sr {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %n = graph.mul %x, %sb : tensor<2x4xf32>
  %gb = graph.broadcast %g {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %w = graph.mul %n, %gb : tensor<2x4xf32>
  return %w : tensor<2x4xf32>
}

// -----

// A sum of four numbers by three is no mean.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.rms_norm
// CHECK: graph.rsqrt
// CHECK: return
func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}, %g: tensor<4xf32> {graph.role = #graph.input<"g">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %three = graph.constant dense<3.0> : tensor<2x1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<2x1xf32>
  %q = graph.mul %x, %x : tensor<2x4xf32>
  %v = graph.reduce sum %q over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %v1 = graph.reshape %v : (tensor<2xf32>) -> tensor<2x1xf32>
  %va = graph.div %v1, %three : tensor<2x1xf32>
  %ve = graph.add %va, %e : tensor<2x1xf32>
  %sd = graph.rsqrt %ve : tensor<2x1xf32>
  %sr = graph.reshape %sd : (tensor<2x1xf32>) -> tensor<2xf32>
  %sb = graph.broadcast %sr {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %n = graph.mul %x, %sb : tensor<2x4xf32>
  %gb = graph.broadcast %g {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %w = graph.mul %n, %gb : tensor<2x4xf32>
  return %w : tensor<2x4xf32>
}
