// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --evaluate=ranks --expect=%t.npz
// Dims that no loop can cut or merge do not matter where all elements are the
// same.

#mesh = #sharding.mesh<["a"=2]>
module attributes {sharding.mesh = #mesh} {
func.func @step() -> (tensor<f32, #sharding.layout<#mesh, []>> {graph.role = #graph.output<"y">}) {
  %0 = graph.constant dense<1.5> : tensor<4x3xf32, #sharding.layout<#mesh, [{}, {}]>>
  %1 = graph.reshape %0 : (tensor<4x3xf32, #sharding.layout<#mesh, [{}, {}]>>) -> tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>>
  %2 = graph.reduce sum %1 over [0, 1] : (tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>>) -> tensor<f32, #sharding.layout<#mesh, []>>
  return %2 : tensor<f32, #sharding.layout<#mesh, []>>
}
}
