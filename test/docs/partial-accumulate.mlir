// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --localize --evaluate=ranks | FileCheck %s
// Gradient accumulation of docs/partial-values.md: one all-reduce for all
// microbatches.

#mesh = #sharding.mesh<["data"=2]>
!all = tensor<3x4xf32, #sharding.layout<#mesh, [{}, {"data"}]>>
!x = tensor<4xf32, #sharding.layout<#mesh, [{"data"}]>>
!index = tensor<i64, #sharding.layout<#mesh, []>>
!part = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
!whole = tensor<f32, #sharding.layout<#mesh, []>>

func.func @accumulate() -> (!whole {graph.role = #graph.output<"sum">}) {
  %all = graph.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : !all
  %part = graph.microbatches count = 3 of(%all) carry() {
  ^bb0(%index: !index, %x: !x):
    %s = graph.reduce sum %x over [0] : (!x) -> !part
    graph.yield sum(%s) carry() : !part
  } : (!all) -> !part
  %sum = sharding.all_reduce %part : (!part) -> !whole
  return %sum : !whole
}

// CHECK: sum: tensor<f32> [78]
