// RUN: polyrank-opt %s --evaluate=distributed | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global | FileCheck %s --check-prefix=GLOBAL
// RUN: polyrank-opt %s --shuffle-ops=seed=3 --evaluate=distributed | FileCheck %s
// Megatron's two matmuls: one reduction, and the hidden dim is never whole.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!x = tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!h = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}]>>
!part = tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>>
!up = tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!down = tensor<8x6xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>

// CHECK: @block distributed
// GLOBAL: @block global
// GLOBAL-NEXT: result0: tensor<4x6xf32> [
func.func @block(%x: !x, %up: !up, %down: !down) -> !x {
  %0 = graph.matmul %x, %up batch [] x [] contract [1] x [0] : (!x, !up) -> !h
  %1 = graph.gelu tanh %0 : !h
  %2 = graph.matmul %1, %down batch [] x [] contract [1] x [0] : (!h, !down) -> !part
  %3 = sharding.all_reduce %2 : (!part) -> !x
  %4 = graph.add %x, %3 : !x
  return %4 : !x
}
