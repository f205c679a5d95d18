// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// The mistakes of docs/padding.md.

#mesh = #sharding.mesh<["tensor"=4]>
!x = tensor<6xf32, #sharding.layout<#mesh, [{"tensor"} pad 8]>>
!part = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"tensor"}>>
func.func @sum_of_padding(%x: !x) -> !part {
  // expected-error @+1 {{operand 0 dim 0 is reduced over its padding, which must hold 'fill zero' (sharding.fill)}}
  %0 = graph.reduce sum %x over [0] : (!x) -> !part
  return %0 : !part
}

// -----

#mesh = #sharding.mesh<["tensor"=4]>
// expected-error @+1 {{dim 0 of size 6 cannot be split over {"tensor"} into 4 equal blocks; pad it to 8}}
func.func private @does_not_divide(%x: tensor<6xf32, #sharding.layout<#mesh, [{"tensor"}]>>)
