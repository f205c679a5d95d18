// RUN: polyrank-opt %s --localize | FileCheck %s
// The first example of docs/layouts.md.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!x = tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}]>>
!w = tensor<6x8xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!y = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>>

func.func @product(%x: !x, %w: !w) -> !y {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !y
  return %y : !y
}

// What one device holds and computes:
// CHECK: (tensor<2x3xf32>, tensor<3x8xf32>) -> tensor<2x8xf32>

// Types of the same page.
!split = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}]>>                 // both dims split
!unfinished = tensor<4x6xf32, #sharding.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>> // an unfinished sum
func.func private @types(%0: !split, %1: !unfinished)
