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

// What layouts cost, and why something moves.
// CHECK: func.func private @objective() attributes {sharding.objective = #sharding.objective<value = <violations = [0, 2], bytes = 8, flops = 16>, bound = <bytes = 8, flops = 16>>}
func.func private @objective() attributes {sharding.objective = #sharding.objective<value = <violations = [0, 2, 0], bytes = 8, flops = 16>, bound = <violations = [0, 0], bytes = 8, flops = 16>>}
// CHECK: func.func private @reasons() attributes {all = #sharding.reason<value = "v", producer = "p \22a\22", user = "u", from = "[-]", to = "[data]", constraint = "c", members = [<user = "a">, <>]>, none = #sharding.reason<>}
func.func private @reasons() attributes {all = #sharding.reason<members = [<user = "a">, <>], constraint = "c", to = "[data]", from = "[-]", user = "u", producer = "p \22a\22", value = "v">, none = #sharding.reason<>}
