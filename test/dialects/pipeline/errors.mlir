// RUN: polyrank-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{[P1] pipeline.axis is a name and pipeline.coordinates an array of numbers, and one needs the other}}
module attributes {pipeline.axis = "pipe"} {}

// -----
// expected-error @+1 {{[P1] pipeline.axis is a name and pipeline.coordinates an array of numbers, and one needs the other}}
module attributes {pipeline.axis = 1 : i64, pipeline.coordinates = array<i64: 0>} {}

// -----
// expected-error @+1 {{[P1] a stage lies at coordinate 2 of "pipe", whose size is 2}}
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 2>, sharding.mesh = #sharding.mesh<["pipe"=2]>} {}

// -----
// expected-error @+1 {{[P1] pipeline.axis is "stage", which is no axis of #sharding.mesh<["pipe"=2]>}}
module attributes {pipeline.axis = "stage", pipeline.coordinates = array<i64: 0, 1>, sharding.mesh = #sharding.mesh<["pipe"=2]>} {}

// -----
// expected-error @+1 {{[P2] pipeline.schedule = 1 : i64 is no attribute that the pipeline dialect knows}}
module attributes {pipeline.schedule = 1 : i64} {}

// -----
// expected-error @+1 {{[P2] pipeline.order = "1f1b" is no attribute that the pipeline dialect knows}}
module attributes {pipeline.order = "1f1b"} {}

// -----
func.func @another_shape(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] makes 'tensor<8xf32>' of 'tensor<4xf32>'; only the place may change}}
  %0 = pipeline.transfer %x from 0 to 1 : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @another_layout(%x: tensor<4xf32, #sharding.layout<#mesh, [{"data"}], at {"pipe" = 0}>>) {
  // expected-error @+1 {{[1] makes}}
  %0 = pipeline.transfer %x from 0 to 1 : tensor<4xf32, #sharding.layout<#mesh, [{"data"}], at {"pipe" = 0}>> -> tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>
  return
}

// -----
func.func @to_itself(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] goes from stage 1 to 1; stages begin with 0, and a value stays where it is without it}}
  %0 = pipeline.transfer %x from 1 to 1 : tensor<4xf32>
  return
}

// -----
func.func @to_before_the_first(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] goes from stage -1 to -2; stages begin with 0}}
  %0 = pipeline.transfer %x to -2 : tensor<4xf32>
  return
}

// -----
func.func @joins_nothing() {
  // expected-error @+1 {{[1] joins nothing}}
  %0 = pipeline.join sum : () -> tensor<f32>
  return
}

// -----
func.func @joins_other_shapes(%x: tensor<4xf32>, %y: tensor<f32>) {
  // expected-error @+1 {{[1] makes 'tensor<4xf32>' of 'tensor<f32>'}}
  %0 = pipeline.join sum %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @joins_other_layouts(%x: tensor<4xf32, #sharding.layout<#mesh, [{"data"}], at {"pipe" = 0}>>,
                               %y: tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>) {
  // expected-error @+1 {{[2] joins}}
  %0 = pipeline.join sum %x, %y : (tensor<4xf32, #sharding.layout<#mesh, [{"data"}], at {"pipe" = 0}>>, tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>) -> tensor<4xf32, #sharding.layout<#mesh, [{"data"}], partial = sum {"pipe"}>>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @is_not_partial(%x: tensor<f32, #sharding.layout<#mesh, [], at {"pipe" = 0}>>) {
  // expected-error @+1 {{[2] makes}}
  %0 = pipeline.join sum %x : (tensor<f32, #sharding.layout<#mesh, [], at {"pipe" = 0}>>) -> tensor<f32, #sharding.layout<#mesh, []>>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @largest_of_sums(%x: tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}, at {"pipe" = 0}>>) {
  // expected-error @+1 {{[3] joins partial sum by max}}
  %0 = pipeline.join max %x : (tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}, at {"pipe" = 0}>>) -> tensor<f32, #sharding.layout<#mesh, [], partial = max {"data", "pipe"}>>
  return
}
