// RUN: polyrank-opt %s --propagate-layouts --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --shuffle-ops=seed=1 --propagate-layouts --plan-reshards --evaluate=distributed --expect=%t.npz | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --localize --check-ranks --evaluate=ranks --expect=%t.npz | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --print-why 2>&1 | FileCheck %s --check-prefix=WHY
// A strided convolution of 33 rows in 17 windows and a pooling of these in 9,
// split over `space`: extents that are 4, 2 and 1 times as many blocks of rows,
// and one exchange of borders for each, forward and backward.

#mesh = #sharding.mesh<["space"=2]>
module attributes {sharding.mesh = #mesh} {

// VALUE: @step
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x33xf32, #sharding.layout<#mesh, [{}, {"space"} pad 40 fill zero]>>
// WHY: 1 x halo over space, 40 bytes
// WHY-NEXT: x gives [-,space pad 40]
// WHY-NEXT: unfold takes [-,space pad 40 halo 3:2]
// WHY-NEXT: because of x=[-,space]
func.func @step(%x: tensor<2x33xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"space"}]> from "x=[-,space]">},
                %w: tensor<7xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<7xf32> {graph.role = #graph.next<1>}, tensor<2x33xf32> {graph.role = #graph.output<"dx">}, tensor<2x9xf32> {graph.role = #graph.output<"y">}) {
  // CHECK: %[[WIDE:.*]] = sharding.halo %[[X]] {{.*}} -> tensor<2x33xf32, #sharding.layout<#mesh, [{}, {"space"} pad 40 fill zero halo 3:2]>>
  // CHECK: graph.unfold %[[WIDE]] {{.*}} -> tensor<2x17x7xf32, #sharding.layout<#mesh, [{}, {"space"} pad 20, {}]>>
  %0 = graph.unfold %x {dim = 1 : i64, size = 7 : i64, stride = 2 : i64, dilation = 1 : i64, low = 3 : i64, high = 3 : i64} : (tensor<2x33xf32>) -> tensor<2x17x7xf32>
  %1 = graph.matmul %0, %w batch [] x [] contract [2] x [0] : (tensor<2x17x7xf32>, tensor<7xf32>) -> tensor<2x17xf32>
  // CHECK: sharding.halo {{.*}} [{}, {"space"} pad 20 halo 1:0]>>
  %2 = graph.unfold %1 {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64, value = -1.0e+30 : f64} : (tensor<2x17xf32>) -> tensor<2x9x3xf32>
  %3 = graph.reduce max %2 over [2] : (tensor<2x9x3xf32>) -> tensor<2x9xf32>
  // A shortcut that takes every second row needs no borders.
  // CHECK: graph.slice {{.*}} -> tensor<2x9xf32, #sharding.layout<#mesh, [{}, {"space"} pad 10]>>
  %s = graph.slice %1 {starts = array<i64: 0, 0>, limits = array<i64: 2, 17>, strides = array<i64: 1, 2>} : (tensor<2x17xf32>) -> tensor<2x9xf32>
  %y = graph.add %3, %s : tensor<2x9xf32>
  // Backward: sums for the neighbours.
  %4 = graph.broadcast %y {dims = array<i64: 0, 1>} : (tensor<2x9xf32>) -> tensor<2x9x3xf32>
  // CHECK: %[[SUMS:.*]] = graph.fold {{.*}} -> tensor<2x17xf32, #sharding.layout<#mesh, [{}, {"space"} pad 20 spill 1:0]>>
  // CHECK: sharding.halo_add %[[SUMS]]
  %5 = graph.fold %4 {dim = 1 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64} : (tensor<2x9x3xf32>) -> tensor<2x17xf32>
  %dw = graph.matmul %0, %5 batch [] x [] contract [0, 1] x [0, 1] : (tensor<2x17x7xf32>, tensor<2x17xf32>) -> tensor<7xf32>
  %6 = graph.matmul %5, %w batch [] x [] contract [] x [] : (tensor<2x17xf32>, tensor<7xf32>) -> tensor<2x17x7xf32>
  // CHECK: sharding.halo_add {{.*}} -> tensor<2x33xf32, #sharding.layout<#mesh, [{}, {"space"} pad 40]>>
  %dx = graph.fold %6 {dim = 1 : i64, stride = 2 : i64, dilation = 1 : i64, low = 3 : i64} : (tensor<2x17x7xf32>) -> tensor<2x33xf32>
  return %dw, %dx, %y : tensor<7xf32>, tensor<2x33xf32>, tensor<2x9xf32>
}
}
