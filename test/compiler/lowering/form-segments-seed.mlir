// RUN: polyrank-opt %s --place-values --plan-reshards --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments --evaluate=ranks --expect=%t.npz
// A gradient that nothing of the forward goes into: the seed is of all stages, and each
// segment that needs it has its own, whatever order the schedule runs them in.

#mesh = #sharding.mesh<["a"=6, "pipe"=2]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1, 1, 0>, pipeline.schedule = "zero-bubble-v", sharding.mesh = #mesh} {
  func.func @step(%arg0: tensor<2x3x2x5xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>> {graph.role = #graph.input<"x0">}, %arg1: tensor<2x3xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.input<"x1">}, %arg2: tensor<2x3x4x3xi64, #sharding.layout<#mesh, [{}, {}, {}, {}]>> {graph.role = #graph.input<"x2">}, %arg3: tensor<f32, #sharding.layout<#mesh, []>> {graph.role = #graph.input<"in7">}) -> (tensor<f32, #sharding.layout<#mesh, []>> {graph.role = #graph.output<"last">}) attributes {sharding.objective = #sharding.objective<value = <bytes = 0, flops = 4430>, bound = <bytes = 0, flops = 4430>>} {
    %0:3 = graph.microbatches count = 2 of(%arg0, %arg1, %arg2) carry() {
    ^bb0(%arg4: tensor<i64, #sharding.layout<#mesh, []>>, %arg5: tensor<3x2x5xf32, #sharding.layout<#mesh, [{}, {}, {}]>>, %arg6: tensor<3xf32, #sharding.layout<#mesh, [{}]>>, %arg7: tensor<3x4x3xi64, #sharding.layout<#mesh, [{}, {}, {}]>>):
      %1 = graph.seed 0.16666666666666666 {graph.phase = #graph.phase<backward>} : tensor<f32, #sharding.layout<#mesh, []>>
      %2 = pipeline.transfer %1 from 3 to 2 {graph.origin = "transfer", graph.phase = #graph.phase<backward>} : tensor<f32, #sharding.layout<#mesh, []>>
      %3 = graph.broadcast %2 {dims = array<i64>, graph.origin = "reduce", graph.phase = #graph.phase<backward>} : (tensor<f32, #sharding.layout<#mesh, []>>) -> tensor<3x2x4x3xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>>
      %4 = pipeline.transfer %2 from 2 to 1 {graph.origin = "transfer", graph.phase = #graph.phase<backward>} : tensor<f32, #sharding.layout<#mesh, []>>
      %5 = graph.broadcast %4 {dims = array<i64>, graph.origin = "reduce", graph.phase = #graph.phase<backward>} : (tensor<f32, #sharding.layout<#mesh, []>>) -> tensor<3x4x5xf32, #sharding.layout<#mesh, [{}, {}, {}]>>
      %6 = pipeline.transfer %5 from 1 to 0 {graph.origin = "transfer", graph.phase = #graph.phase<backward>} : tensor<3x4x5xf32, #sharding.layout<#mesh, [{}, {}, {}]>>
      graph.yield sum(%6, %3, %arg3) carry() : tensor<3x4x5xf32, #sharding.layout<#mesh, [{}, {}, {}]>>, tensor<3x2x4x3xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>>, tensor<f32, #sharding.layout<#mesh, []>>
    } : (tensor<2x3x2x5xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>>, tensor<2x3xf32, #sharding.layout<#mesh, [{}, {}]>>, tensor<2x3x4x3xi64, #sharding.layout<#mesh, [{}, {}, {}, {}]>>) -> (tensor<3x4x5xf32, #sharding.layout<#mesh, [{}, {}, {}]>>, tensor<3x2x4x3xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>>, tensor<f32, #sharding.layout<#mesh, []>>)
    return %0#2 : tensor<f32, #sharding.layout<#mesh, []>>
  }
}
