// RUN: polyrank-opt %s --plan-reshards --split-input-file --verify-diagnostics

#mesh = #sharding.mesh<["x"=6]>
!halves = tensor<12xf32, #sharding.layout<#mesh, [{"x":(1)2}]>>
!thirds = tensor<12xf32, #sharding.layout<#mesh, [{"x":(1)3}]>>
func.func @cuts_that_do_not_divide(%x: !halves) -> !thirds {
  // expected-error @+1 {{cannot go from layout [{"x":(1)2}] to [{"x":(1)3}]: the layouts cut one mesh axis at sizes that do not divide each other}}
  %y = sharding.reshard %x : (!halves) -> !thirds
  return %y : !thirds
}
