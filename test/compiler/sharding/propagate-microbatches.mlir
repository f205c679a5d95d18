// RUN: polyrank-opt %s --propagate-layouts --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Data parallelism of an MLP over four microbatches with momentum: the sums of
// gradients stay partial inside the region, and each is reduced once a step.

#mesh = #sharding.mesh<["data"=2]>
module attributes {sharding.mesh = #mesh} {

// VALUE: @step distributed

// CHECK-LABEL: func.func @step
func.func @step(
    %w: tensor<6x3xf32> {graph.role = #graph.parameter<@w>},
    %b: tensor<3xf32> {graph.role = #graph.parameter<@b>},
    %m: tensor<6x3xf32> {graph.role = #graph.state<"momentum" of @w>},
    %x: tensor<4x8x6xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"data"}, {}]> open [false, false, true] priority 1 from "data splits the batch by default">})
    -> (tensor<6x3xf32> {graph.role = #graph.next<0>}, tensor<3xf32> {graph.role = #graph.next<1>}, tensor<6x3xf32> {graph.role = #graph.next<2>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  // CHECK: graph.microbatches
  // CHECK: ^bb0(%{{.*}}: tensor<i64, #sharding.layout<#mesh, []>>, %{{.*}}: tensor<8x6xf32, #sharding.layout<#mesh, [{"data"}, {}]>>)
  // CHECK-NOT: = sharding.{{all|reduce|slice}}
  // CHECK: graph.yield
  // CHECK-SAME: tensor<6x3xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>, tensor<3xf32, #sharding.layout<#mesh, [{}], partial = sum {"data"}>>, tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
  %dw, %db, %loss = graph.microbatches count = 4 of(%x) carry() {
  ^bb0(%index: tensor<i64>, %xi: tensor<8x6xf32>):
    %h = graph.matmul %xi, %w batch [] x [] contract [1] x [0] : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %bb = graph.broadcast %b {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32>
    %y = graph.add %h, %bb : tensor<8x3xf32>
    %yy = graph.mul %y, %y : tensor<8x3xf32>
    %li = graph.reduce sum %yy over [0, 1] : (tensor<8x3xf32>) -> tensor<f32>
    %seed = graph.seed 2.0 : tensor<f32>
    %s = graph.broadcast %seed {dims = array<i64>} : (tensor<f32>) -> tensor<8x3xf32>
    %dy = graph.mul %s, %y : tensor<8x3xf32>
    %dbi = graph.reduce sum %dy over [0] : (tensor<8x3xf32>) -> tensor<3xf32>
    %dwi = graph.matmul %xi, %dy batch [] x [] contract [0] x [0] : (tensor<8x6xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
    graph.yield sum(%dwi, %dbi, %li) carry() : tensor<6x3xf32>, tensor<3xf32>, tensor<f32>
  } : (tensor<4x8x6xf32>) -> (tensor<6x3xf32>, tensor<3xf32>, tensor<f32>)
  // CHECK-COUNT-3: sharding.all_reduce
  // CHECK-NOT: = sharding.
  %scale = graph.constant dense<0.125> : tensor<6x3xf32>
  %g = graph.mul %dw, %scale : tensor<6x3xf32>
  %m1 = graph.add %m, %g : tensor<6x3xf32>
  %w1 = graph.sub %w, %m1 : tensor<6x3xf32>
  %b1 = graph.sub %b, %db : tensor<3xf32>
  return %w1, %b1, %m1, %loss : tensor<6x3xf32>, tensor<3xf32>, tensor<6x3xf32>, tensor<f32>
}
}
