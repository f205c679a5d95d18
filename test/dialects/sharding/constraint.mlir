// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// Constraints, read and printed.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>

// CHECK-LABEL: func.func @f
// CHECK-SAME: {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {}]>>}
// CHECK-SAME: {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> open [true, false] priority 2 from "w=[?,tensor]">}
func.func @f(%x: tensor<4x6xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {}]>>},
             %w: tensor<6x8xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> open [true, false] priority 2 from "w=[?,tensor]">},
             %s: tensor<6xf32>) {
  // CHECK: sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}]> result 1>
  %n, %mean, %rstd = graph.layer_norm %x, %s, %s {epsilon = 1.0e-05 : f64, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}]> result 1>}
    : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
