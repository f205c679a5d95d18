// RUN: polyrank-opt %s --localize -split-input-file -verify-diagnostics

#mesh = #sharding.mesh<["data"=2]>
#split = #sharding.layout<#mesh, [{"data"}]>
#whole = #sharding.layout<#mesh, [{}]>
func.func @unplanned(%x: tensor<4xf32, #split>) -> tensor<4xf32, #whole> {
  // expected-error @+1 {{is still to be planned: plan-reshards lowers it to collectives}}
  %0 = sharding.reshard %x : (tensor<4xf32, #split>) -> tensor<4xf32, #whole>
  return %0 : tensor<4xf32, #whole>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
#split = #sharding.layout<#mesh, [{"data"}]>
// expected-error @+1 {{a value without a layout, of type 'tensor<4xf32>', among values that have one}}
func.func @unpartitioned(%x: tensor<4xf32, #split>, %y: tensor<4xf32>) {
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
#other = #sharding.mesh<["model"=2]>
#split = #sharding.layout<#mesh, [{"data"}]>
#model = #sharding.layout<#other, [{"model"}]>
// expected-error @+1 {{is laid out over}}
func.func @two_meshes(%x: tensor<4xf32, #split>, %y: tensor<4xf32, #model>) {
  return
}
