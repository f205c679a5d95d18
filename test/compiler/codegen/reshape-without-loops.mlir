// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --evaluate=ranks --expect=%t.npz

// No loops walk through 6x4 and through 8x3, so what is computed in the one shape and read in the other lies in
// memory.

#mesh = #sharding.mesh<["a"=2]>
#one = #sharding.layout<#mesh, [{}]>
#two = #sharding.layout<#mesh, [{}, {}]>
module attributes {sharding.mesh = #mesh} {
// CHECK-LABEL: func.func @step
// CHECK: %[[SPREAD:.*]] = rank.launch @{{.*}}broadcast{{.*}}(%arg0)
// CHECK: rank.view %[[SPREAD]] offset 0 : (tensor<6x4xf32>) -> tensor<8x3xf32>
func.func @step(
    %x: tensor<4xf32, #one> {graph.role = #graph.input<"x">}, %y: tensor<8x3xf32, #two> {graph.role = #graph.input<"y">},
    %ids: tensor<8x3xi64, #two> {graph.role = #graph.input<"ids">})
    -> (tensor<8x3xf32, #two> {graph.role = #graph.output<"sum">}, tensor<4xf32, #one> {graph.role = #graph.output<"rows">},
        tensor<6xf32, #one> {graph.role = #graph.output<"middle">}) {
  %spread = graph.broadcast %x {dims = array<i64: 1>} : (tensor<4xf32, #one>) -> tensor<6x4xf32, #two>
  %cut = graph.reshape %spread : (tensor<6x4xf32, #two>) -> tensor<8x3xf32, #two>
  %sum = graph.add %cut, %y : tensor<8x3xf32, #two>
  %rows = graph.scatter_add %ids, %cut {axis = 0 : i64, batch_dims = 0 : i64}
      : (tensor<8x3xi64, #two>, tensor<8x3xf32, #two>) -> tensor<4xf32, #one>
  // The elements 1 to 6 of 2x4.
  %repeated = graph.broadcast %x {dims = array<i64: 1>} : (tensor<4xf32, #one>) -> tensor<2x4xf32, #two>
  %flat = graph.reshape %repeated : (tensor<2x4xf32, #two>) -> tensor<8xf32, #one>
  %middle = graph.slice %flat {starts = array<i64: 1>, limits = array<i64: 7>, strides = array<i64: 1>}
      : (tensor<8xf32, #one>) -> tensor<6xf32, #one>
  return %sum, %rows, %middle : tensor<8x3xf32, #two>, tensor<4xf32, #one>, tensor<6xf32, #one>
}
}
