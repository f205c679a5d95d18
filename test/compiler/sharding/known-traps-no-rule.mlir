// RUN: polyrank-opt %s -verify-diagnostics --propagate-layouts
// tt-mlir 9136, Shardy 885: an op that no rule describes is not replicated in
// silence, with the whole batch gathered for it; it is an error.

#mesh = #sharding.mesh<["a"=2]>
module attributes {sharding.mesh = #mesh} {
func.func private @custom(tensor<4xf32>) -> tensor<4xf32>
func.func @step(%x: tensor<4xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}]>>}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
  // expected-error @+1 {{has no sharding rule, so its layout cannot be propagated}}
  %y = func.call @custom(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
}
