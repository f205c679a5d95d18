// The example of docs/attention.md: two heads of queries share one head of keys, so
// each device has one head of queries and all keys.
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --apply-strategy='shard=q=[-,tensor,-,-]' --propagate-layouts --plan-reshards -o %t.split.mlir
// RUN: FileCheck %s < %t.split.mlir
// RUN: polyrank-opt %t.split.mlir --evaluate=distributed --expect=%t.npz
// RUN: polyrank-opt %t.split.mlir --lowering-stage --evaluate=arena --expect=%t.npz --tolerance=1e-6

#mesh = #sharding.mesh<["tensor"=2]>
module attributes {sharding.mesh = #mesh} {
  graph.parameter @q : tensor<2x2x4x3xf32> at "m.pt2" offset 0 length 192 {trainable}
  // CHECK: graph.attention {{.*}}[{}, {"tensor"}, {}, {}]{{.*}}, tensor<2x1x4x3xf32, #sharding.layout<#mesh, [{}, {}, {}, {}]>>
  // CHECK-NOT: graph.softmax
  func.func @step(%q: tensor<2x2x4x3xf32> {graph.role = #graph.parameter<@q>}, %k: tensor<2x1x4x3xf32> {graph.role = #graph.input<"k">},
                  %v: tensor<2x1x4x3xf32> {graph.role = #graph.input<"v">}, %m: tensor<2x1x1x4xi1> {graph.role = #graph.input<"m">})
      -> (tensor<2x2x4x3xf32> {graph.role = #graph.output<"y">}) {
    %y, %lse = graph.attention %q, %k, %v mask %m masked add {scale = 0.5 : f64, causal = true, fill = -65504.0 : f64}
       : (tensor<2x2x4x3xf32>, tensor<2x1x4x3xf32>, tensor<2x1x4x3xf32>, tensor<2x1x1x4xi1>) -> (tensor<2x2x4x3xf32>, tensor<2x2x4xf32>)
    return %y : tensor<2x2x4x3xf32>
  }
}
