// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --localize | FileCheck %s --check-prefix=LOCAL
// The first example of docs/partial-values.md.

#mesh = #sharding.mesh<["tensor"=2]>
!x = tensor<2x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!w = tensor<4x1xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!part = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
!whole = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}]>>

func.func @row_parallel() -> (!whole {graph.role = #graph.output<"y">}) {
  %x = graph.constant dense<[[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]> : !x
  %w = graph.constant dense<1.0> : !w
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !part
  %1 = sharding.all_reduce %0 : (!part) -> !whole
  return %1 : !whole
}

// CHECK: y: tensor<2x1xf32> [10, 100]

// LOCAL: graph.matmul {{.*}} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
// LOCAL: rank.all_reduce sum
