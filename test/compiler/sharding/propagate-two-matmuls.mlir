// RUN: polyrank-opt %s --propagate-layouts --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --shuffle-ops=seed=1 --propagate-layouts=report=true --plan-reshards 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// One constraint on the first of two matmuls gives Megatron's block: forward one
// reduction, backward one for the input's gradient, and the hidden dim is never
// whole. The gradients over `data` are reduced once each.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
module attributes {sharding.mesh = #mesh} {

// OBJECTIVE: layouts: {{[0-9]+}} bytes sent and {{[0-9]+}} FLOPs by each device a step; nothing less is possible (gap 0)
// VALUE: @step distributed

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W1:.*]]: tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
// CHECK-SAME: %[[W2:.*]]: tensor<8x6xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
func.func @step(
    %w1: tensor<6x8xf32> {graph.role = #graph.parameter<@w1>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> from "w1=[-,tensor]">},
    %w2: tensor<8x6xf32> {graph.role = #graph.parameter<@w2>},
    %x: tensor<4x6xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {}]> open [false, true] priority 1 from "data splits the batch by default">})
    -> (tensor<6x8xf32> {graph.role = #graph.next<0>}, tensor<8x6xf32> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.output<"loss">}, tensor<4x6xf32> {graph.role = #graph.output<"dx">}) {
  // CHECK: %[[H:.*]] = graph.matmul %[[X]], %[[W1]]
  // CHECK-SAME: -> tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}]>>
  %h = graph.matmul %x, %w1 batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %a = graph.gelu tanh %h : tensor<4x8xf32>
  // CHECK: %[[P:.*]] = graph.matmul
  // CHECK-SAME: -> tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>>
  // CHECK-NEXT: sharding.all_reduce %[[P]]
  // CHECK-SAME: constraint = "w1=[-,tensor]"
  // CHECK-SAME: -> tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
  %m = graph.matmul %a, %w2 batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.add %x, %m : tensor<4x6xf32>
  %yy = graph.mul %y, %y : tensor<4x6xf32>
  // CHECK: graph.reduce sum
  // CHECK-NEXT: sharding.all_reduce
  // CHECK-SAME: constraint = "data splits the batch by default"
  %loss = graph.reduce sum %yy over [0, 1] : (tensor<4x6xf32>) -> tensor<f32>
  %dy = graph.add %y, %y : tensor<4x6xf32>
  // CHECK: = graph.matmul
  // CHECK-NOT: partial = sum {"tensor"}
  // CHECK: graph.gelu_grad
  %da = graph.matmul %dy, %w2 batch [] x [] contract [1] x [1] : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %dw2 = graph.matmul %a, %dy batch [] x [] contract [0] x [0] : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %dh = graph.gelu_grad tanh %da, %h : tensor<4x8xf32>
  // CHECK: = graph.matmul
  // CHECK-SAME: partial = sum {"tensor"}
  // CHECK-NEXT: sharding.all_reduce
  %dm = graph.matmul %dh, %w1 batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  %dx = graph.add %dm, %dy : tensor<4x6xf32>
  // CHECK: = graph.matmul
  // CHECK-SAME: -> tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"tensor"}], partial = sum {"data"}>>
  // CHECK-NEXT: sharding.all_reduce
  %dw1 = graph.matmul %x, %dh batch [] x [] contract [0] x [0] : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  // CHECK-NOT: = sharding.{{all|reduce_scatter|slice}}
  %new1 = graph.sub %w1, %dw1 : tensor<6x8xf32>
  %new2 = graph.sub %w2, %dw2 : tensor<8x6xf32>
  return %new1, %new2, %loss, %dx : tensor<6x8xf32>, tensor<8x6xf32>, tensor<f32>, tensor<4x6xf32>
}
}
