// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// The mistakes of docs/partial-values.md.

#mesh = #sharding.mesh<["tensor"=2]>
!x = tensor<2x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!w = tensor<4x1xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!whole = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}]>>
func.func @forgotten(%x: !x, %w: !w) -> !whole {
  // expected-error @+1 {{result 0 lacks 'partial = sum {"tensor"}': each device has only a part of the reduction}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!x, !w) -> !whole
  return %0 : !whole
}

// -----

#mesh = #sharding.mesh<["tensor"=2]>
!part = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
func.func @not_linear(%p: !part) -> !part {
  // expected-error @+1 {{operand 0 is a partial sum over "tensor", and this op of a partial sum is not the partial of the op; reduce it first (sharding.all_reduce or sharding.reduce_scatter)}}
  %0 = graph.relu %p : !part
  return %0 : !part
}

// -----

#mesh = #sharding.mesh<["tensor"=2]>
!part = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
!whole = tensor<2x1xf32, #sharding.layout<#mesh, [{}, {}]>>
func.func @added_twice(%p: !part, %bias: !whole) -> !part {
  // expected-error @+1 {{operand 0 is a partial sum over "tensor" but another operand is not; make both partial (sharding.to_partial) or reduce this one first}}
  %0 = graph.add %p, %bias : (!part, !whole) -> !part
  return %0 : !part
}
