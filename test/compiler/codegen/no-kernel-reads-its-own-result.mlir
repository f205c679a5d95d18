// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --lower-kernels | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --evaluate=ranks --expect=%t.npz

// The sum reads the exponential, and a reshape of its repetition that no loops
// walk through: this lies in memory between the two.

#mesh = #sharding.mesh<["a"=2]>
#two = #sharding.layout<#mesh, [{}, {}]>
#three = #sharding.layout<#mesh, [{}, {}, {}]>
module attributes {sharding.mesh = #mesh} {
// CHECK-LABEL: func.func @step
// CHECK: rank.launch @{{.*}}exp
// CHECK: %[[SPREAD:.*]] = rank.launch @{{.*}}broadcast
// CHECK: rank.view %[[SPREAD]]
// CHECK: rank.launch @{{.*}}add
func.func @step(%x: tensor<8x3xf32, #two> {graph.role = #graph.input<"x">})
    -> (tensor<8x3xf32, #two> {graph.role = #graph.output<"y">}) {
  %v = graph.exp %x : tensor<8x3xf32, #two>
  %spread = graph.broadcast %v {dims = array<i64: 0, 1>} : (tensor<8x3xf32, #two>) -> tensor<8x3x2xf32, #three>
  %cut = graph.reshape %spread : (tensor<8x3x2xf32, #three>) -> tensor<6x8xf32, #two>
  %rows = graph.slice %cut {starts = array<i64: 0, 0>, limits = array<i64: 3, 8>, strides = array<i64: 1, 1>}
      : (tensor<6x8xf32, #two>) -> tensor<3x8xf32, #two>
  %turned = graph.transpose %rows {permutation = array<i64: 1, 0>} : (tensor<3x8xf32, #two>) -> tensor<8x3xf32, #two>
  %y = graph.add %v, %turned : tensor<8x3xf32, #two>
  return %y : tensor<8x3xf32, #two>
}
}
