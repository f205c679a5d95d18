// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// RUN: polyrank-opt %s --mlir-print-op-generic | polyrank-opt | FileCheck %s

#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
#at0 = #sharding.layout<#mesh, [{"data"}], at {"pipe" = 0}>
#at1 = #sharding.layout<#mesh, [{"data"}], at {"pipe" = 1}>
#all = #sharding.layout<#mesh, [{"data"}]>
#part0 = #sharding.layout<#mesh, [], at {"pipe" = 0}>
#part1 = #sharding.layout<#mesh, [], at {"pipe" = 1}>
#sum = #sharding.layout<#mesh, [], partial = sum {"pipe"}>

// CHECK: module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b"
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b", sharding.mesh = #mesh} {
  // CHECK-LABEL: func @global
  func.func @global(%x: tensor<4xf32>, %a: tensor<f32>) {
    // CHECK: pipeline.transfer %{{.*}} from 0 to 1 : tensor<4xf32>
    %0 = pipeline.transfer %x from 0 to 1 : tensor<4xf32>
    // CHECK: pipeline.transfer %{{.*}} to 1 : tensor<4xf32>
    %1 = pipeline.transfer %x to 1 : tensor<4xf32>
    // CHECK: pipeline.join sum %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %2 = pipeline.join sum %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // CHECK: pipeline.join max %{{.*}} : (tensor<f32>) -> tensor<f32>
    %3 = pipeline.join max %a : (tensor<f32>) -> tensor<f32>
    return
  }

  // CHECK-LABEL: func @laid_out
  func.func @laid_out(%x: tensor<4xf32, #at0>, %y: tensor<4xf32, #all>, %a: tensor<f32, #part0>, %b: tensor<f32, #part1>) {
    // CHECK: pipeline.transfer %{{.*}} from 0 to 1 : tensor<4xf32, #{{.*}}> -> tensor<4xf32, #{{.*}}>
    %0 = pipeline.transfer %x from 0 to 1 : tensor<4xf32, #at0> -> tensor<4xf32, #at1>
    // CHECK: pipeline.transfer %{{.*}} to 1 : tensor<4xf32, #{{.*}}> -> tensor<4xf32, #{{.*}}>
    %1 = pipeline.transfer %y to 1 : tensor<4xf32, #all> -> tensor<4xf32, #at1>
    // CHECK: pipeline.join sum
    %2 = pipeline.join sum %a, %b : (tensor<f32, #part0>, tensor<f32, #part1>) -> tensor<f32, #sum>
    return
  }
}
