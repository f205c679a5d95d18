// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --localize --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize | FileCheck %s --check-prefix=LOCAL
// The example of docs/padding.md.

#mesh = #sharding.mesh<["tensor"=4]>
!x = tensor<6xf32, #sharding.layout<#mesh, [{"tensor"} pad 8]>>
!filled = tensor<6xf32, #sharding.layout<#mesh, [{"tensor"} pad 8 fill zero]>>
!part = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"tensor"}>>
!whole = tensor<f32, #sharding.layout<#mesh, []>>

func.func @sum(%x: !x {graph.role = #graph.input<"x">}) -> (!whole {graph.role = #graph.output<"sum">}) {
  %zero = graph.constant dense<0.0> : !x
  %same = graph.mul %x, %zero : !x
  %ones = graph.exp %same : !x
  %filled = sharding.fill %ones : (!x) -> !filled
  %part = graph.reduce sum %filled over [0] : (!filled) -> !part
  %sum = sharding.all_reduce %part : (!part) -> !whole
  return %sum : !whole
}

// CHECK: sum: tensor<f32> [6]

// Each device has two elements; what lies at or behind 6 becomes zero.
// LOCAL: %[[INDEX:.*]] = rank.axis_index
// LOCAL: graph.compare lt
// LOCAL: graph.select
// LOCAL: graph.reduce sum {{.*}} : (tensor<2xf32>) -> tensor<f32>
