// RUN: polyrank-opt %s --shard-updates=threshold=1 | FileCheck %s
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --check-partition | FileCheck %s --check-prefix=MOVES
// RUN: polyrank-opt %s --shard-updates=stage=0 --plan-reshards --evaluate=distributed --outputs=%t.npz
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --evaluate=distributed --expect=%t.npz
// Gradients in parts are divided by the scale where they are, and one number,
// the largest element, decides for all devices.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!wb = tensor<4x4xi1, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!b = tensor<i1, #sharding.layout<#mesh, []>>

// MOVES: sharding.reduce_scatter
// MOVES: sharding.all_reduce {{.*}} -> tensor<f32, #sharding.layout<#mesh, []>>
// MOVES-NOT: sharding.all_reduce
// MOVES: sharding.all_gather
func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %scale: !s {graph.role = #graph.state<"loss_scale" init 8.0 : f64>}, %x: !w {graph.role = #graph.input<"x">}, %one: !s {graph.role = #graph.input<"one">}, %most: !s {graph.role = #graph.input<"most">}) -> (!w {graph.role = #graph.next<0>}, !s {graph.role = #graph.next<1>}, !s {graph.role = #graph.output<"largest">}) {
  %sum = sharding.to_partial %x : (!w) -> !dw
  %whole = sharding.reshard %sum : (!dw) -> !w
  %taken = graph.gradient %whole of @w : !w
  %inverse = graph.div %one, %scale : !s
  %factor = graph.broadcast %inverse {dims = array<i64>} : (!s) -> !w
  %g = graph.mul %taken, %factor : !w
  %sizes = graph.abs %g : !w
  %largest = graph.reduce max %sizes over [0, 1] : (!w) -> !s
  %applies = graph.compare le %largest, %most : (!s, !s) -> !b
  %moved = graph.sub %w, %g : !w
  %each = graph.broadcast %applies {dims = array<i64>} : (!b) -> !wb
  %new = graph.select %each, %moved, %w : (!wb, !w, !w) -> !w
  return %new, %scale, %largest : !w, !s, !s
}

// CHECK: %[[G:.*]] = sharding.reshard %{{.*}} -> tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: graph.reduce max %{{.*}} over [0, 1] {{.*}} -> tensor<f32, #sharding.layout<#mesh, [], partial = max {"data"}>>
// CHECK: graph.select {{.*}} -> tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
