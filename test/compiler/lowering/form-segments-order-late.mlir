// RUN: polyrank-opt %s --place-values --plan-reshards --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments | FileCheck %s
// Stage 1 receives two values before it sends one on, of which stage 2 makes
// what comes back to stage 0. So stage 0 sends both before it receives that,
// though the model has the second after it.

// CHECK-LABEL: func.func @step_0
// CHECK: rank.segment "forward first"
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: rank.recv {{.*}} from 2 to 0
// CHECK: graph.neg
// CHECK-NOT: rank.send
// CHECK: rank.segment "forward"
// CHECK-LABEL: func.func @step_1

#mesh = #sharding.mesh<["pipe"=3]>
#whole = #sharding.layout<#mesh, [{}]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1, 2>, pipeline.schedule = "gpipe", sharding.mesh = #mesh} {
  graph.parameter @s : tensor<4xf32> at "weights.bin" offset 0 length 16 {graph.stage = 0 : i64}
  func.func @step(%s: tensor<4xf32, #whole> {graph.role = #graph.parameter<@s>}, %batch: tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.input<"x">}) -> (tensor<4xf32, #whole> {graph.role = #graph.next<0>}, tensor<4xf32, #whole> {graph.role = #graph.output<"sum">}) {
    %0:2 = graph.microbatches count = 3 of(%batch) carry(%s) {
    ^bb0(%i: tensor<i64, #sharding.layout<#mesh, []>>, %x: tensor<4xf32, #whole>, %before: tensor<4xf32, #whole>):
      %first = pipeline.transfer %before from 0 to 1 : tensor<4xf32, #whole>
      %on = pipeline.transfer %first from 1 to 2 : tensor<4xf32, #whole>
      %sum = graph.add %on, %x : tensor<4xf32, #whole>
      %back = pipeline.transfer %sum from 2 to 0 : tensor<4xf32, #whole>
      %next = graph.neg %back : tensor<4xf32, #whole>
      %mine = graph.abs %before : tensor<4xf32, #whole>
      %second = pipeline.transfer %mine from 0 to 1 : tensor<4xf32, #whole>
      %there = graph.exp %second : tensor<4xf32, #whole>
      graph.yield sum(%there) carry(%next) : tensor<4xf32, #whole>, tensor<4xf32, #whole>
    } : (tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>>, tensor<4xf32, #whole>) -> (tensor<4xf32, #whole>, tensor<4xf32, #whole>)
    return %0#1, %0#0 : tensor<4xf32, #whole>, tensor<4xf32, #whole>
  }
}
