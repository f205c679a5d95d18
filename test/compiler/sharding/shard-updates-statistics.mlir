// RUN: polyrank-opt %s --propagate-layouts --shard-updates=threshold=1 | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --propagate-layouts --shard-updates=threshold=1 --evaluate=distributed --expect=%t.npz
// Running statistics that a step keeps if a gradient is not finite depend on a
// gradient, and are no update: the microbatches that computed them are left as
// they are.

#mesh = #sharding.mesh<["data"=2]>
module attributes {sharding.mesh = #mesh} {
  graph.parameter @w : tensor<4x3xf32> at "weights.bin" offset 0 length 48 {trainable}
  graph.parameter @seen : tensor<3xf32> at "weights.bin" offset 48 length 12

  // CHECK-LABEL: func.func @step
  // CHECK: %[[SUMS:.*]]:2 = graph.microbatches
  // CHECK: graph.reduce max {{.*}} partial = max {"data"}
  // CHECK: %[[KEPT:.*]] = graph.select %{{.*}}, %[[SUMS]]#1, %{{.*}} tensor<3xf32, #sharding.layout<#mesh, [{}]>>
  func.func @step(%w: tensor<4x3xf32> {graph.role = #graph.parameter<@w>}, %seen: tensor<3xf32> {graph.role = #graph.parameter<@seen>},
                  %x: tensor<2x4x3xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"data"}, {}]> open [false, false, false] priority 0>})
      -> (tensor<4x3xf32> {graph.role = #graph.next<0>}, tensor<3xf32> {graph.role = #graph.next<1>}) {
    %most = graph.constant dense<0.5> : tensor<f32>
    %sum, %next = graph.microbatches count = 2 of(%x) carry(%seen) {
    ^bb0(%i: tensor<i64>, %slice: tensor<4x3xf32>, %before: tensor<3xf32>):
      %column = graph.reduce sum %slice over [0] : (tensor<4x3xf32>) -> tensor<3xf32>
      %after = graph.add %before, %column : tensor<3xf32>
      %d = graph.mul %slice, %w : tensor<4x3xf32>
      graph.yield sum(%d) carry(%after) : tensor<4x3xf32>, tensor<3xf32>
    } : (tensor<2x4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
    %g = graph.gradient %sum of @w : tensor<4x3xf32>
    %sizes = graph.abs %g : tensor<4x3xf32>
    %largest = graph.reduce max %sizes over [0, 1] : (tensor<4x3xf32>) -> tensor<f32>
    %applies = graph.compare le %largest, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %moved = graph.sub %w, %g : tensor<4x3xf32>
    %each = graph.broadcast %applies {dims = array<i64>} : (tensor<i1>) -> tensor<4x3xi1>
    %new = graph.select %each, %moved, %w : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %all = graph.broadcast %applies {dims = array<i64>} : (tensor<i1>) -> tensor<3xi1>
    %kept = graph.select %all, %next, %seen : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %new, %kept : tensor<4x3xf32>, tensor<3xf32>
  }
}
