// RUN: polyrank-opt %s --shard-updates --verify-diagnostics --split-input-file

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @symbol(%w: !w {graph.role = #graph.parameter<@w>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}) {
  // expected-error @+1 {{is of no parameter of the step, with that view, that has a next value}}
  %g = graph.gradient %dw of @v : !w
  %new = graph.sub %w, %g : !w
  return %new : !w
}

// -----

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @view(%w: !w {graph.role = #graph.parameter<@w view [8, 1]>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}) {
  // expected-error @+1 {{is of no parameter of the step, with that view, that has a next value}}
  %g = graph.gradient %dw of @w view [0, 1] : !w
  %new = graph.sub %w, %g : !w
  return %new : !w
}
