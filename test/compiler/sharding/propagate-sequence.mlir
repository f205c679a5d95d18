// RUN: polyrank-opt %s --propagate-layouts --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global | sed s/global// > %t.global
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --evaluate=distributed | sed s/distributed// > %t.distributed
// RUN: diff %t.global %t.distributed
// Sequence parallelism: a constraint on the norm's output turns each all-reduce
// around the block of two matmuls into a reduce-scatter and an all-gather, and
// the norm's weights get their gradients as sums over both axes.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
module attributes {sharding.mesh = #mesh} {
// CHECK-LABEL: func.func @step
// CHECK: = graph.layer_norm
// CHECK-SAME: tensor<4x4x6xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}, {}]>>
// CHECK: = sharding.all_gather
// CHECK: = graph.matmul
// CHECK: = graph.matmul
// CHECK-NEXT: = sharding.reduce_scatter
// The gradient of the output is gathered for the second matmul's gradients.
// CHECK: = sharding.all_gather
// CHECK: = graph.gelu_grad
// CHECK: = graph.matmul
// CHECK: = sharding.reduce_scatter
// CHECK: = graph.layer_norm_grad
// CHECK-SAME: tensor<6xf32, #sharding.layout<#mesh, [{}], partial = sum {"data", "tensor"}>>
// CHECK-NOT: sharding.all_gather
func.func @step(
    %w1: tensor<6x8xf32> {graph.role = #graph.parameter<@w1>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> from "w1=[-,tensor]">},
    %w2: tensor<8x6xf32> {graph.role = #graph.parameter<@w2>},
    %scale: tensor<6xf32> {graph.role = #graph.parameter<@scale>},
    %bias: tensor<6xf32> {graph.role = #graph.parameter<@bias>},
    %x: tensor<4x4x6xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {}, {}]> open [false, true, true] priority 1 from "data splits the batch by default">})
    -> (tensor<6x8xf32> {graph.role = #graph.next<0>}, tensor<8x6xf32> {graph.role = #graph.next<1>}, tensor<6xf32> {graph.role = #graph.next<2>}, tensor<6xf32> {graph.role = #graph.next<3>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  %n, %mean, %rstd = graph.layer_norm %x, %scale, %bias {epsilon = 1.0e-05 : f64, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {"tensor"}, {}]> from "out(ln)=[data,tensor,-]">} : (tensor<4x4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x4x6xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
  %h = graph.matmul %n, %w1 batch [] x [] contract [2] x [0] : (tensor<4x4x6xf32>, tensor<6x8xf32>) -> tensor<4x4x8xf32>
  %a = graph.gelu tanh %h : tensor<4x4x8xf32>
  %m = graph.matmul %a, %w2 batch [] x [] contract [2] x [0] : (tensor<4x4x8xf32>, tensor<8x6xf32>) -> tensor<4x4x6xf32>
  %y = graph.add %x, %m : tensor<4x4x6xf32>
  %yy = graph.mul %y, %y : tensor<4x4x6xf32>
  %loss = graph.reduce sum %yy over [0, 1, 2] : (tensor<4x4x6xf32>) -> tensor<f32>
  %dy = graph.add %y, %y : tensor<4x4x6xf32>
  %da = graph.matmul %dy, %w2 batch [] x [] contract [2] x [1] : (tensor<4x4x6xf32>, tensor<8x6xf32>) -> tensor<4x4x8xf32>
  %dw2 = graph.matmul %a, %dy batch [] x [] contract [0, 1] x [0, 1] : (tensor<4x4x8xf32>, tensor<4x4x6xf32>) -> tensor<8x6xf32>
  %dh = graph.gelu_grad tanh %da, %h : tensor<4x4x8xf32>
  %dn = graph.matmul %dh, %w1 batch [] x [] contract [2] x [1] : (tensor<4x4x8xf32>, tensor<6x8xf32>) -> tensor<4x4x6xf32>
  %dw1 = graph.matmul %n, %dh batch [] x [] contract [0, 1] x [0, 1] : (tensor<4x4x6xf32>, tensor<4x4x8xf32>) -> tensor<6x8xf32>
  %dx, %dscale, %dbias = graph.layer_norm_grad %dn, %x, %scale, %mean, %rstd : (tensor<4x4x6xf32>, tensor<4x4x6xf32>, tensor<6xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  %new1 = graph.sub %w1, %dw1 : tensor<6x8xf32>
  %new2 = graph.sub %w2, %dw2 : tensor<8x6xf32>
  %new3 = graph.sub %scale, %dscale : tensor<6xf32>
  %new4 = graph.sub %bias, %dbias : tensor<6xf32>
  return %new1, %new2, %new3, %new4, %loss : tensor<6x8xf32>, tensor<8x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<f32>
}
}
