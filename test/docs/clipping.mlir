// RUN: polyrank-opt %s --shard-updates=threshold=1 | FileCheck %s
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --check-partition | FileCheck %s --check-prefix=MOVES
// RUN: polyrank-opt %s --shard-updates=stage=0 --plan-reshards --evaluate=distributed --outputs=%t.npz
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --evaluate=distributed --expect=%t.npz
// The norm of gradients in parts is a partial sum: one number is reduced.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!s = tensor<f32, #sharding.layout<#mesh, []>>

// MOVES: sharding.reduce_scatter
// MOVES: sharding.all_reduce {{.*}} -> tensor<f32, #sharding.layout<#mesh, []>>
// MOVES-NOT: sharding.all_reduce
// MOVES: sharding.all_gather
func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %x: !w {graph.role = #graph.input<"x">}, %one: !s {graph.role = #graph.input<"one">}) -> (!w {graph.role = #graph.next<0>}, !s {graph.role = #graph.output<"grad_norm">}) {
  %sum = sharding.to_partial %x : (!w) -> !dw
  %whole = sharding.reshard %sum : (!dw) -> !w
  %g = graph.gradient %whole of @w : !w
  %squares = graph.mul %g, %g : !w
  %total = graph.reduce sum %squares over [0, 1] : (!w) -> !s
  %norm = graph.sqrt %total : !s
  %most = graph.max %norm, %one : !s
  %all = graph.broadcast %most {dims = array<i64>} : (!s) -> !w
  %clipped = graph.div %g, %all : !w
  %new = graph.sub %w, %clipped : !w
  return %new, %norm : !w, !s
}

// CHECK: %[[G:.*]] = sharding.reshard %{{.*}} -> tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[SQUARES:.*]] = graph.mul %[[G]], %[[G]]
// CHECK: %[[TOTAL:.*]] = graph.reduce sum %[[SQUARES]] over [0, 1] {{.*}} -> tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
// CHECK: sharding.reshard %[[TOTAL]]
