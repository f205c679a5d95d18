// The outputs give way to a sum and a count for each mean.

// RUN: polyrank-opt %s --attach-loss='loss=cross_entropy(logits,labels)' | FileCheck %s --check-prefix=LABELS
// RUN: polyrank-opt %s --attach-loss='loss=mse(logits,target)+0.5*cross_entropy(logits,labels,ignore_index=7)' | FileCheck %s --check-prefix=TWO
// RUN: not polyrank-opt %s --attach-loss='loss=mse(probabilities,target)' 2>&1 | FileCheck %s --check-prefix=NONE

// Labels are an input like the output without its classes; those that are
// ignored do not count.

// LABELS-LABEL: func.func @forward
// LABELS-SAME: %[[L:[a-z0-9]+]]: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 3 ignored -100>}
// LABELS-SAME: -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<4>})
// LABELS: %[[Y:.+]] = graph.matmul
// LABELS: %[[LOSS:.+]], %{{.+}} = graph.cross_entropy %[[Y]], %[[L]] {axis = 1 : i64, ignore_index = -100 : i64}
// LABELS: %[[COUNTS:.+]] = graph.compare ne %[[L]]
// LABELS: %[[ONES:.+]] = graph.convert %[[COUNTS]]
// LABELS: %[[COUNT:.+]] = graph.reduce sum %[[ONES]] over [0]
// LABELS: %[[SUM:.+]] = graph.reduce sum %[[LOSS]] over [0]
// LABELS: return %[[SUM]], %[[COUNT]]

// Two terms, each over its own targets.

// TWO-LABEL: func.func @forward
// TWO-SAME: tensor<4x3xf32> {graph.role = #graph.input<"target" labels>}
// TWO-SAME: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 3 ignored 7>}
// TWO-SAME: #graph.mean<"mse(logits,target)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<12>}
// TWO-SAME: #graph.mean<"cross_entropy(logits,labels,ignore_index=7)" weight 5.000000e-01 : f64>}, tensor<f32> {graph.role = #graph.count<4>}
// TWO: graph.constant dense<1.200000e+01> : tensor<f32>

// NONE: --loss: the model has no output 'probabilities'; its outputs are: logits

graph.parameter @w : tensor<5x3xf32> at "m.onnx" offset 0 length 60 {trainable}
func.func @forward(%w: tensor<5x3xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x5xf32> {graph.role = #graph.input<"x">})
    -> (tensor<4x3xf32> {graph.role = #graph.output<"logits">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
