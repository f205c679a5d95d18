// The outputs give way to a sum and a count for each mean.

// RUN: polyrank-opt %s --attach-loss='loss=cross_entropy(logits,labels)' | FileCheck %s --check-prefix=LABELS
// RUN: polyrank-opt %s --attach-loss='loss=mse(logits,target)+0.5*cross_entropy(logits,labels,ignore_index=7)' | FileCheck %s --check-prefix=TWO
// RUN: polyrank-opt %s --attach-loss='loss=cross_entropy(logits,labels,label_smoothing=0.25,weight=1:2:3)' | FileCheck %s --check-prefix=SMOOTH
// RUN: polyrank-opt %s --attach-loss='metrics=accuracy(logits,labels,top=2),perplexity(logits,labels)' | FileCheck %s --check-prefix=METRICS
// RUN: not polyrank-opt %s --attach-loss='metrics=mse(logits,y),mse(logits,y)' 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not polyrank-opt %s --attach-loss='loss=mse(probabilities,target)' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not polyrank-opt %s --attach-loss='loss=cross_entropy(logits,y)+cross_entropy(logits,y,ignore_index=1)' 2>&1 | FileCheck %s --check-prefix=IGNORED
// RUN: not polyrank-opt %s --attach-loss='loss=cross_entropy(logits,y) metrics=accuracy(logits,y,ignore_index=1)' 2>&1 | FileCheck %s --check-prefix=METRIC-IGNORED

// Labels are an input like the output without its classes; those that are
// ignored do not count.

// LABELS-LABEL: func.func @forward
// LABELS-SAME: %[[L:[a-z0-9]+]]: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 3 ignored -100>}
// LABELS-SAME: -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<4>})
// LABELS: %[[Y:.+]] = graph.matmul
// LABELS: %[[COUNTS:.+]] = graph.compare ne %[[L]]
// LABELS: %[[ONES:.+]] = graph.convert %[[COUNTS]]
// LABELS: %[[LOSS:.+]], %{{.+}} = graph.cross_entropy %[[Y]], %[[L]] {axis = 1 : i64, ignore_index = -100 : i64}
// LABELS: %[[SUM:.+]] = graph.reduce sum %[[LOSS]] over [0]
// LABELS: %[[COUNT:.+]] = graph.reduce sum %[[ONES]] over [0]
// LABELS: return %[[SUM]], %[[COUNT]]

// Two terms, each over its own targets.

// TWO-LABEL: func.func @forward
// TWO-SAME: tensor<4x3xf32> {graph.role = #graph.input<"target" labels>}
// TWO-SAME: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 3 ignored 7>}
// TWO-SAME: #graph.mean<"mse(logits,target)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<12>}
// TWO-SAME: #graph.mean<"cross_entropy(logits,labels,ignore_index=7)" weight 5.000000e-01 : f64>}, tensor<f32> {graph.role = #graph.count<4>}
// TWO: graph.constant dense<1.200000e+01> : tensor<f32>

// The smoothed part is made of lse, which cross_entropy gives, and of the mean
// of the logits by weight: 6 / 3 lse - 1/3 (1 x0 + 2 x1 + 3 x2).

// SMOOTH-LABEL: func.func @forward
// SMOOTH-SAME: #graph.count<4>
// SMOOTH: %[[Y:.+]] = graph.matmul
// SMOOTH: %[[COUNTS:.+]] = graph.compare ne %[[L:[a-z0-9]+]]
// SMOOTH: %[[LOSS:.+]], %[[LSE:.+]] = graph.cross_entropy %[[Y]], %[[L]]
// SMOOTH: %[[WEIGHT:.+]] = graph.gather %{{.+}}, %[[L]] {axis = 0 : i64
// SMOOTH: %[[COUNTED:.+]] = graph.select %[[COUNTS]], %[[WEIGHT]]
// SMOOTH: %[[OWN:.+]] = graph.mul %[[LOSS]], %[[COUNTED]]
// SMOOTH: graph.constant dense<7.500000e-01>
// SMOOTH: %[[TWICE:.+]] = graph.constant dense<2.000000e+00>
// SMOOTH: graph.mul %[[LSE]], %[[TWICE]]
// SMOOTH: %[[SMOOTH:.+]] = graph.select %[[COUNTS]]
// SMOOTH: %[[COUNT:.+]] = graph.reduce sum %[[COUNTED]] over [0]
// SMOOTH: return %{{.+}}, %[[COUNT]]

// Without a loss metrics are all that is left. A label is right where two
// classes or more, itself among them, score no more: three minus two is one.

// METRICS-LABEL: func.func @forward
// METRICS-SAME: #graph.mean<"accuracy(logits,labels,top=2)">}, tensor<f32> {graph.role = #graph.count<4>}
// METRICS-SAME: #graph.mean<"perplexity(logits,labels)" geometric>}, tensor<f32> {graph.role = #graph.count<4>}
// METRICS: %[[OWN:.+]] = graph.gather %[[Y:.+]], %[[L:.+]] {axis = 1 : i64, batch_dims = 1 : i64}
// METRICS: %[[BEFORE:.+]] = graph.compare lt
// METRICS: %[[LESS:.+]] = graph.compare lt %[[Y]]
// METRICS: %[[NOMORE:.+]] = graph.compare le %[[Y]]
// METRICS: graph.select %[[BEFORE]], %[[LESS]], %[[NOMORE]]
// METRICS: %[[BEHIND:.+]] = graph.reduce sum %{{.+}} over [1]
// METRICS: %[[ONE:.+]] = graph.constant dense<1.000000e+00>
// METRICS: graph.compare gt %[[BEHIND]], %[[ONE]]
// METRICS: graph.cross_entropy

// SAME: the log would have two numbers called 'mse(logits,y)'

// Which labels count is one property of an input.

// IGNORED: --loss: two terms have the labels 'y', one with ignore_index=-100 and one with ignore_index=1; give one of them another name
// METRIC-IGNORED: --metric: a metric has the labels 'y' of the loss or of another metric, one with ignore_index=-100 and one with ignore_index=1; give one of them another name

// NONE: --loss: the model has no output 'probabilities'; its outputs are: logits

graph.parameter @w : tensor<5x3xf32> at "m.onnx" offset 0 length 60 {trainable}
func.func @forward(%w: tensor<5x3xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x5xf32> {graph.role = #graph.input<"x">})
    -> (tensor<4x3xf32> {graph.role = #graph.output<"logits">}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
