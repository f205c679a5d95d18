// RUN: polyrank-opt %s --place-values --plan-reshards --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %s --place-values --plan-reshards --check-partition --localize --choose-orders --form-segments | FileCheck %s
// What a stage sends stands behind all that it receives, whichever is there first:
// else stage 2 waits for a slot of its channel before it frees the one that stage
// 1 waits for, and with it stage 3, which would free the first.

// CHECK-LABEL: func.func @step_0
// CHECK: rank.segment "forward of chunk 1 first"
// CHECK: rank.recv {{.*}} from 1 to 0
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: rank.segment "forward of chunk 1"
// CHECK: rank.recv {{.*}} from 1 to 0
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: rank.recv {{.*}} from 1 to 0
// CHECK: rank.send {{.*}} from 0 to 1
// CHECK: return

#mesh = #sharding.mesh<["pipe"=2]>
#whole = #sharding.layout<#mesh, [{}]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1, 0, 1>, pipeline.schedule = "interleaved", sharding.mesh = #mesh} {
  func.func @step(%batch: tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.input<"x">}) -> (tensor<4xf32, #whole> {graph.role = #graph.output<"y">}, tensor<4xf32, #whole> {graph.role = #graph.output<"z">}) {
    %0:2 = graph.microbatches count = 3 of(%batch) carry() {
    ^bb0(%i: tensor<i64, #sharding.layout<#mesh, []>>, %x: tensor<4xf32, #whole>):
      %p = pipeline.transfer %x to 2 : tensor<4xf32, #whole>
      %n = graph.neg %p : tensor<4xf32, #whole>
      %q = pipeline.transfer %n from 2 to 3 : tensor<4xf32, #whole>
      %r = pipeline.transfer %x to 1 : tensor<4xf32, #whole>
      %s = graph.exp %r : tensor<4xf32, #whole>
      %u = pipeline.transfer %s from 1 to 2 : tensor<4xf32, #whole>
      graph.yield sum(%q, %u) carry() : tensor<4xf32, #whole>, tensor<4xf32, #whole>
    } : (tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>>) -> (tensor<4xf32, #whole>, tensor<4xf32, #whole>)
    return %0#0, %0#1 : tensor<4xf32, #whole>, tensor<4xf32, #whole>
  }
}
