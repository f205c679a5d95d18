// RUN: polyrank-opt %s --evaluate=global | FileCheck %s
// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --localize --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize | FileCheck %s --check-prefix=LOCAL
// The example of docs/three-evaluations.md: Megatron's two products.

#mesh = #sharding.mesh<["tensor"=2]>
!x = tensor<1x2xf32, #sharding.layout<#mesh, [{}, {}]>>
!up = tensor<2x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!h = tensor<1x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!down = tensor<4x2xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!part = tensor<1x2xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>

func.func @mlp() -> (!x {graph.role = #graph.output<"y">}) {
  %x = graph.constant dense<[[1.0, 2.0]]> : !x
  %up = graph.constant dense<[[1.0, -1.0, 2.0, 0.0], [0.0, 0.0, 1.0, 3.0]]> : !up
  %down = graph.constant dense<[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0]]> : !down
  %0 = graph.matmul %x, %up batch [] x [] contract [1] x [0] : (!x, !up) -> !h
  %1 = graph.relu %0 : !h
  %2 = graph.matmul %1, %down batch [] x [] contract [1] x [0] : (!h, !down) -> !part
  %3 = sharding.all_reduce %2 : (!part) -> !x
  return %3 : !x
}

// CHECK: y: tensor<1x2xf32> [13, 4]

// LOCAL: graph.matmul {{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// LOCAL: graph.relu {{.*}} : tensor<1x2xf32>
// LOCAL: graph.matmul {{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// LOCAL: rank.all_reduce sum {{.*}} over <#mesh, {"tensor"}>
