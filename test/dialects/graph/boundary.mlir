// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// What arguments and results are, read and printed.

graph.parameter @w : tensor<4x6xf32> at "model.onnx" offset 0 length 96 {trainable}

// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<2x3xf32> {graph.role = #graph.parameter<@w view [7, 6, 1]>}
// CHECK-SAME: tensor<8x16xi64> {graph.role = #graph.input<"ids" open_batch range 256>}
// CHECK-SAME: tensor<8x16xi64> {graph.role = #graph.input<"labels" labels range 256 ignored -100>}
// CHECK-SAME: tensor<8xf32> {graph.role = #graph.input<"x">}
// CHECK-SAME: tensor<8x2x4xf32> {graph.role = #graph.input<"state" batch_dim 1>}
// CHECK-SAME: tensor<1x4xi64> {graph.role = #graph.input<"mask" labels range 4 no_batch>}
// CHECK-SAME: tensor<i64> {graph.role = #graph.counter<seed>}
// CHECK-SAME: tensor<i64> {graph.role = #graph.counter<step>}
// CHECK-SAME: tensor<i64> {graph.role = #graph.counter<microbatch>}
// CHECK-SAME: -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(a,b)" weight 1.000000e+00 : f64>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.count<128>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.mean<"perplexity" geometric>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.count<8>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.mean<"loss">}
// CHECK-SAME: tensor<f32> {graph.role = #graph.count<8 least 1.000000e+00 : f64>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.mean<"loss" further>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.count<1>}
// CHECK-SAME: tensor<8x2x4xf32> {graph.role = #graph.output<"states" batch_dim 1>}
// CHECK-SAME: tensor<1x4xi64> {graph.role = #graph.output<"masks" no_batch>}
// CHECK-SAME: tensor<2x3xf32> {graph.role = #graph.next<0>})
func.func @forward(%w: tensor<2x3xf32> {graph.role = #graph.parameter<@w view [7, 6, 1]>},
                   %ids: tensor<8x16xi64> {graph.role = #graph.input<"ids" open_batch range 256>},
                   %labels: tensor<8x16xi64> {graph.role = #graph.input<"labels" labels range 256 ignored -100>},
                   %x: tensor<8xf32> {graph.role = #graph.input<"x">},
                   %state: tensor<8x2x4xf32> {graph.role = #graph.input<"state" batch_dim 1>},
                   %mask: tensor<1x4xi64> {graph.role = #graph.input<"mask" labels range 4 no_batch>},
                   %a: tensor<i64> {graph.role = #graph.counter<seed>},
                   %b: tensor<i64> {graph.role = #graph.counter<step>},
                   %c: tensor<i64> {graph.role = #graph.counter<microbatch>},
                   %s: tensor<f32>)
    -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(a,b)" weight 1.0>}, tensor<f32> {graph.role = #graph.count<128>},
        tensor<f32> {graph.role = #graph.mean<"perplexity" geometric>}, tensor<f32> {graph.role = #graph.count<8>},
        tensor<f32> {graph.role = #graph.mean<"loss">}, tensor<f32> {graph.role = #graph.count<8 least 1.0>},
        tensor<f32> {graph.role = #graph.mean<"loss" further>}, tensor<f32> {graph.role = #graph.count<1>},
        tensor<8x2x4xf32> {graph.role = #graph.output<"states" batch_dim 1>}, tensor<1x4xi64> {graph.role = #graph.output<"masks" no_batch>},
        tensor<2x3xf32> {graph.role = #graph.next<0>}) {
  return %s, %s, %s, %s, %s, %s, %s, %s, %state, %mask, %w : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<8x2x4xf32>, tensor<1x4xi64>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<4x6xf32> {graph.role = #graph.parameter<@w>}
// CHECK-SAME: tensor<4x6xf32> {graph.role = #graph.state<"exp_avg" of @w init 0.000000e+00 : f64>}
// CHECK-SAME: tensor<24xf32> {graph.role = #graph.state<"row" of @w view [0, 1]>}
// CHECK-SAME: tensor<i64> {graph.role = #graph.state<"step">}
// CHECK-SAME: -> (tensor<4x6xf32> {graph.role = #graph.next<1>}, tensor<4x6xf32> {graph.role = #graph.next<0>}
// CHECK-SAME: tensor<f32> {graph.role = #graph.output<"perplexity" geometric>}, tensor<f32> {graph.role = #graph.output<"loss">})
func.func @step(%w: tensor<4x6xf32> {graph.role = #graph.parameter<@w>},
                %m: tensor<4x6xf32> {graph.role = #graph.state<"exp_avg" of @w init 0.0>},
                %r: tensor<24xf32> {graph.role = #graph.state<"row" of @w view [0, 1]>},
                %n: tensor<i64> {graph.role = #graph.state<"step">}, %loss: tensor<f32>)
    -> (tensor<4x6xf32> {graph.role = #graph.next<1>}, tensor<4x6xf32> {graph.role = #graph.next<0>},
        tensor<f32> {graph.role = #graph.output<"perplexity" geometric>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  return %m, %w, %loss, %loss : tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @rates
// CHECK-SAME: tensor<f64> {graph.role = #graph.learning_rate<1.000000e-03 : f64 scale 1.000000e+00 : f64 schedule "cosine(total=10)">}
// CHECK-SAME: tensor<f64> {graph.role = #graph.learning_rate<1.000000e-03 : f64 scale 1.000000e-01 : f64 schedule "cosine(total=10)">}
// CHECK-SAME: tensor<f64> {graph.role = #graph.learning_rate<5.000000e-01 : f64 schedule "cosine(total=10)">}
// CHECK-LABEL: func.func @constant_rate
// CHECK-SAME: tensor<f64> {graph.role = #graph.learning_rate<1.000000e-03 : f64 scale 1.000000e+00 : f64>}
func.func @rates(%a: tensor<f64> {graph.role = #graph.learning_rate<1.0e-3 scale 1.0 schedule "cosine(total=10)">},
                 %b: tensor<f64> {graph.role = #graph.learning_rate<1.0e-3 scale 0.1 schedule "cosine(total=10)">},
                 %c: tensor<f64> {graph.role = #graph.learning_rate<0.5 schedule "cosine(total=10)">}) { return }
func.func @constant_rate(%a: tensor<f64> {graph.role = #graph.learning_rate<1.0e-3 scale 1.0>}) { return }
