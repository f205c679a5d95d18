// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --localize --evaluate=ranks | FileCheck %s
// Each op of the table in docs/layouts.md keeps the value.

#mesh = #sharding.mesh<["a"=2]>
!split = tensor<2xf32, #sharding.layout<#mesh, [{"a"}]>>
!whole = tensor<2xf32, #sharding.layout<#mesh, [{}]>>
!part = tensor<2xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>

func.func @all() -> (!whole {graph.role = #graph.output<"all_gather">}, !split {graph.role = #graph.output<"slice">},
    !part {graph.role = #graph.output<"to_partial">}, !whole {graph.role = #graph.output<"all_reduce">}, !split {graph.role = #graph.output<"reduce_scatter">}) {
  %split = graph.constant dense<[1.0, 2.0]> : !split
  %0 = sharding.all_gather %split : (!split) -> !whole
  %1 = sharding.slice %0 : (!whole) -> !split
  %2 = sharding.to_partial %0 : (!whole) -> !part
  %3 = sharding.all_reduce %2 : (!part) -> !whole
  %4 = sharding.reduce_scatter %2 : (!part) -> !split
  return %0, %1, %2, %3, %4 : !whole, !split, !part, !whole, !split
}

// CHECK: all_gather: tensor<2xf32> [1, 2]
// CHECK: slice: tensor<2xf32> [1, 2]
// CHECK: to_partial: tensor<2xf32> [1, 2]
// CHECK: all_reduce: tensor<2xf32> [1, 2]
// CHECK: reduce_scatter: tensor<2xf32> [1, 2]
