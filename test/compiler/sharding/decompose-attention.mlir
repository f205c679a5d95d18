// RUN: polyrank-opt %s --propagate-layouts --decompose-composites -o %t 2> %t.remarks
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Attention whose keys are split is in parts. A remark says how large the
// largest is on a device: here half of the 2 x 4 x 64 x 64 scores.

#mesh = #sharding.mesh<["seq"=2]>
module attributes {sharding.mesh = #mesh} {

// CHECK-LABEL: func.func @keys
// CHECK-NOT: graph.attention
// REMARK: remark: 1 x graph.attention: computed in parts, of which one has 64.0 KiB on each device, since a dim is split that one call needs whole (k=[-,-,seq,-])
// REMARK-NOT: remark
func.func @keys(%q: tensor<2x4x64x8xf32> {graph.role = #graph.input<"q">},
    %k: tensor<2x4x64x8xf32> {graph.role = #graph.input<"k">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {}, {"seq"}, {}]> from "k=[-,-,seq,-]">},
    %v: tensor<2x4x64x8xf32> {graph.role = #graph.input<"v">}) -> (tensor<2x4x64x8xf32> {graph.role = #graph.output<"y">}) {
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true} : (tensor<2x4x64x8xf32>, tensor<2x4x64x8xf32>, tensor<2x4x64x8xf32>) -> (tensor<2x4x64x8xf32>, tensor<2x4x64xf32>)
  return %y : tensor<2x4x64x8xf32>
}

// Nothing is large: eight keys are as many as a head is wide.
// CHECK-LABEL: func.func @few
// CHECK-NOT: graph.attention
func.func @few(%q: tensor<2x4x8x8xf32> {graph.role = #graph.input<"q">},
    %k: tensor<2x4x8x8xf32> {graph.role = #graph.input<"k">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {}, {"seq"}, {}]> from "k=[-,-,seq,-]">},
    %v: tensor<2x4x8x8xf32> {graph.role = #graph.input<"v">}) -> (tensor<2x4x8x8xf32> {graph.role = #graph.output<"y">}) {
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8xf32>)
  return %y : tensor<2x4x8x8xf32>
}
}
