// Labels that the output is computed from are named, unless the model shifts
// them.

// RUN: polyrank-opt %s --split-input-file --attach-loss='loss=cross_entropy(logits,ids) metrics=accuracy(logits,ids)' --verify-diagnostics

// expected-warning @+3 {{--loss: the labels 'ids' are an input that 'logits' is computed from, so the model learns to repeat its input; labels of their own, cross_entropy(logits,labels), become a further input, to which a language model's next tokens go}}
// expected-remark @+2 {{the classes are dim 2 of 'logits'}}
graph.parameter @w : tensor<7x7xf32> at "m.onnx" offset 0 length 196 {trainable}
func.func @forward(%w: tensor<7x7xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x5xi64> {graph.role = #graph.input<"ids" range 7>})
    -> (tensor<4x5x7xf32> {graph.role = #graph.output<"logits">}) {
  %0 = graph.gather %w, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<7x7xf32>, tensor<4x5xi64>) -> tensor<4x5x7xf32>
  return %0 : tensor<4x5x7xf32>
}

// -----

// expected-remark @+2 {{the classes are dim 2 of 'logits'}}
graph.parameter @w : tensor<7x7xf32> at "m.onnx" offset 0 length 196 {trainable}
func.func @forward(%w: tensor<7x7xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x5xi64> {graph.role = #graph.input<"ids" range 7>})
    -> (tensor<4x5x7xf32> {graph.role = #graph.output<"logits">}) {
  %start = graph.constant dense<0> : tensor<4x1xi64>
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<4x5xi64>) -> tensor<4x4xi64>
  %1 = graph.concat %start, %0 {dim = 1 : i64} : (tensor<4x1xi64>, tensor<4x4xi64>) -> tensor<4x5xi64>
  %2 = graph.gather %w, %1 {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<7x7xf32>, tensor<4x5xi64>) -> tensor<4x5x7xf32>
  return %2 : tensor<4x5x7xf32>
}

// -----

// An input of labels that only a loss in the model reads.

// expected-remark @+2 {{the classes are dim 2 of 'logits'}}
graph.parameter @w : tensor<7x7xf32> at "m.onnx" offset 0 length 196 {trainable}
func.func @forward(%w: tensor<7x7xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x5xi64> {graph.role = #graph.input<"x" range 7>},
                   %y: tensor<4x5xi64> {graph.role = #graph.input<"ids">})
    -> (tensor<4x5x7xf32> {graph.role = #graph.output<"logits">}, tensor<4x5xf32> {graph.role = #graph.output<"loss">}) {
  %0 = graph.gather %w, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<7x7xf32>, tensor<4x5xi64>) -> tensor<4x5x7xf32>
  %loss, %lse = graph.cross_entropy %0, %y {axis = 2 : i64, ignore_index = -100 : i64} : (tensor<4x5x7xf32>, tensor<4x5xi64>) -> (tensor<4x5xf32>, tensor<4x5xf32>)
  return %0, %loss : tensor<4x5x7xf32>, tensor<4x5xf32>
}
