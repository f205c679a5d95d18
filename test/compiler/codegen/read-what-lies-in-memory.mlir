// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --lower-kernels | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --evaluate=ranks --expect=%t.npz

// What a reshape that lies in memory is made of lies in memory too, before the
// kernel that reads the reshape: not inside of it.

#mesh = #sharding.mesh<["a"=2]>
#three = #sharding.layout<#mesh, [{}, {}, {}]>
#four = #sharding.layout<#mesh, [{}, {}, {}, {}]>
module attributes {sharding.mesh = #mesh} {
// A slice whose rows are repeated stands behind another slice of the same.
// CHECK-LABEL: func.func @step
// CHECK: %[[SPREAD:.*]] = rank.launch @{{.*}}broadcast
// CHECK: %[[ROWS:.*]] = rank.view %[[SPREAD]] {{.*}} -> tensor<4x8x32xf32>
// CHECK: rank.launch @{{.*}}concat{{.*}}(%{{.*}}, %[[ROWS]])
func.func @step(%x: tensor<4x3x32xf32, #three> {graph.role = #graph.input<"x">})
    -> (tensor<4x9x32xf32, #three> {graph.role = #graph.output<"y">}) {
  %h = graph.exp %x : tensor<4x3x32xf32, #three>
  %first = graph.slice %h {starts = array<i64: 0, 0, 0>, limits = array<i64: 4, 1, 32>, strides = array<i64: 1, 1, 1>}
      : (tensor<4x3x32xf32, #three>) -> tensor<4x1x32xf32, #three>
  %rest = graph.slice %h {starts = array<i64: 0, 1, 0>, limits = array<i64: 4, 3, 32>, strides = array<i64: 1, 1, 1>}
      : (tensor<4x3x32xf32, #three>) -> tensor<4x2x32xf32, #three>
  %spread = graph.broadcast %rest {dims = array<i64: 0, 1, 3>} : (tensor<4x2x32xf32, #three>) -> tensor<4x2x4x32xf32, #four>
  %rows = graph.reshape %spread : (tensor<4x2x4x32xf32, #four>) -> tensor<4x8x32xf32, #three>
  %y = graph.concat %first, %rows {dim = 1 : i64}
      : (tensor<4x1x32xf32, #three>, tensor<4x8x32xf32, #three>) -> tensor<4x9x32xf32, #three>
  return %y : tensor<4x9x32xf32, #three>
}
}
