// RUN: polyrank-opt %s --place-values --plan-reshards --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments | FileCheck %s
// What comes back to a stage is the answer to what it sends, and is received
// behind that.

// CHECK-LABEL: func.func @step_0
// CHECK: rank.segment "forward first"
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: rank.recv {{.*}} from 1 to 0
// CHECK-LABEL: func.func @step_1

#mesh = #sharding.mesh<["pipe"=2]>
#whole = #sharding.layout<#mesh, [{}]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "gpipe", sharding.mesh = #mesh} {
  graph.parameter @s : tensor<4xf32> at "weights.bin" offset 0 length 16 {graph.stage = 0 : i64}
  func.func @step(%s: tensor<4xf32, #whole> {graph.role = #graph.parameter<@s>}, %batch: tensor<2x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.input<"x">}) -> (tensor<4xf32, #whole> {graph.role = #graph.next<0>}) {
    %0 = graph.microbatches count = 2 of(%batch) carry(%s) {
    ^bb0(%i: tensor<i64, #sharding.layout<#mesh, []>>, %x: tensor<4xf32, #whole>, %before: tensor<4xf32, #whole>):
      %there = pipeline.transfer %before from 0 to 1 : tensor<4xf32, #whole>
      %sum = graph.add %there, %x : tensor<4xf32, #whole>
      %back = pipeline.transfer %sum from 1 to 0 : tensor<4xf32, #whole>
      graph.yield sum() carry(%back) : tensor<4xf32, #whole>
    } : (tensor<2x4xf32, #sharding.layout<#mesh, [{}, {}]>>, tensor<4xf32, #whole>) -> tensor<4xf32, #whole>
    return %0 : tensor<4xf32, #whole>
  }
}
