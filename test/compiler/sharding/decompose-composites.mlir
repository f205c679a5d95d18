// RUN: polyrank-opt %s --propagate-layouts --decompose-composites --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --propagate-layouts | FileCheck %s --check-prefix=WHOLE
// RUN: polyrank-opt %s --propagate-layouts --decompose-composites | FileCheck %s --check-prefix=NAMED
// RUN: polyrank-opt %s --evaluate=global | sed s/global// > %t.global
// RUN: polyrank-opt %s --propagate-layouts --decompose-composites --plan-reshards --evaluate=distributed | sed s/distributed// > %t.distributed
// RUN: diff %t.global %t.distributed
// The head is split over its classes: the loss takes three reductions of one
// number per token, and the logits are never gathered.

#mesh = #sharding.mesh<["tensor"=4]>
module attributes {sharding.mesh = #mesh} {

// Until it is decomposed the op is whole, between reshards that are marked.
// WHOLE: sharding.reshard {{.*}}sharding.composite
// WHOLE: graph.cross_entropy {{.*}}sharding.composite

// Each part knows where its composite comes from, and which is the backward's.
// NAMED: = graph.reduce max {{.*}} {graph.scope = "head"}
// NAMED: = graph.exp {{.*}} {graph.scope = "head"}
// NAMED: = graph.gather {{.*}}, graph.scope = "head"}
// NAMED: = graph.exp {{.*}} {graph.origin = "loss", graph.scope = "head"}
// NAMED: = graph.iota {{.*}} {graph.origin = "loss", graph.scope = "head"}
// NAMED: return

// Ten classes over four devices are padded to twelve.
// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<6x10xf32, #sharding.layout<#mesh, [{}, {"tensor"} pad 12 fill zero]>>
// CHECK-NOT: = sharding.all_gather
// CHECK: = graph.reduce max
// CHECK: = sharding.all_reduce
// CHECK-SAME: partial = max {"tensor"}
// CHECK: = sharding.all_reduce
// CHECK: = sharding.all_reduce
// CHECK-NOT: = sharding.all_gather
// CHECK-NOT: = graph.cross_entropy
// The gradient of the head's input.
// CHECK: = graph.matmul
// CHECK-SAME: partial = sum {"tensor"}
// CHECK: = sharding.all_reduce
// CHECK-NOT: = sharding.all
// CHECK: return
func.func @step(%w: tensor<6x10xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"} pad 12]> from "w=[-,tensor]">},
    %x: tensor<4x6xf32> {graph.role = #graph.input<"x">}, %labels: tensor<4xi64> {graph.role = #graph.input<"labels" range 10>})
    -> (tensor<6x10xf32> {graph.role = #graph.next<0>}, tensor<f32> {graph.role = #graph.output<"loss">}, tensor<4x6xf32> {graph.role = #graph.output<"dx">}) {
  %logits = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x10xf32>) -> tensor<4x10xf32>
  %rows, %lse = graph.cross_entropy %logits, %labels {axis = 1 : i64, ignore_index = -100 : i64, graph.scope = "head"} : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %loss = graph.reduce sum %rows over [0] : (tensor<4xf32>) -> tensor<f32>
  %seed = graph.seed 0.25 : tensor<f32>
  %drows = graph.broadcast %seed {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %dlogits = graph.cross_entropy_grad %drows, %logits, %labels, %lse {axis = 1 : i64, ignore_index = -100 : i64, graph.scope = "head", graph.origin = "loss"} : (tensor<4xf32>, tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x10xf32>
  %dx = graph.matmul %dlogits, %w batch [] x [] contract [1] x [1] : (tensor<4x10xf32>, tensor<6x10xf32>) -> tensor<4x6xf32>
  %dw = graph.matmul %x, %dlogits batch [] x [] contract [0] x [0] : (tensor<4x6xf32>, tensor<4x10xf32>) -> tensor<6x10xf32>
  %new = graph.sub %w, %dw : tensor<6x10xf32>
  return %new, %loss, %dx : tensor<6x10xf32>, tensor<f32>, tensor<4x6xf32>
}
}
