// A loss of the model is a sum of parts, each over its own count; what is no
// mean over samples is named.

// RUN: polyrank-opt %s --split-input-file --attach-loss='loss=output(loss)' --verify-diagnostics | FileCheck %s

// 0.5 ce + e^(the mean of all squares), of which the second is no mean.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<f32> {graph.role = #graph.mean<"output(loss)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<1 least 1.000000e+00 : f64>},
// CHECK-SAME: tensor<f32> {graph.role = #graph.mean<"output(loss)" weight 1.000000e+00 : f64 further>}, tensor<f32> {graph.role = #graph.count<1>})
// CHECK: %[[S:.+]] = graph.reduce sum %{{.+}} over [0]
// CHECK: %[[C:.+]] = graph.reduce sum %{{.+}} over [0]
// CHECK: %[[E:.+]] = graph.exp
// CHECK: %[[COUNT:.+]] = graph.convert %[[C]]
// CHECK: %[[PART:.+]] = graph.mul %[[S]], %{{.+}}
// CHECK: %[[ONE:.+]] = graph.constant dense<1.000000e+00>
// CHECK: return %[[PART]], %[[COUNT]], %[[E]], %[[ONE]]

// expected-remark @+3 {{--loss: 'loss' is a sum of 2 means: each is over its own number of targets in the global batch, and the last over the microbatches, each with the same weight}}
// expected-remark @+2 {{--loss: 'loss' has a part that is no mean over samples: exp; it is computed of each microbatch by itself, and the loss has the mean of these values, which is not that of the global batch where there are several}}
graph.parameter @w : tensor<2xf32> at "m.onnx" offset 0 length 8 {trainable}
func.func @forward(%w: tensor<2xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x2xf32> {graph.role = #graph.input<"x">},
                   %n: tensor<4xi64> {graph.role = #graph.input<"n">}) -> (tensor<f32> {graph.role = #graph.output<"loss">}) {
  %0 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<2xf32>) -> tensor<4x2xf32>
  %1 = graph.mul %x, %0 : tensor<4x2xf32>
  %2 = graph.reduce sum %1 over [1] : (tensor<4x2xf32>) -> tensor<4xf32>
  %3 = graph.convert %n : (tensor<4xi64>) -> tensor<4xf32>
  %4 = graph.mul %2, %3 : tensor<4xf32>
  %s = graph.reduce sum %4 over [0] : (tensor<4xf32>) -> tensor<f32>
  %c = graph.reduce sum %3 over [0] : (tensor<4xf32>) -> tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %least = graph.max %c, %one : tensor<f32>
  %ce = graph.div %s, %least : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %5 = graph.mul %half, %ce : tensor<f32>
  %6 = graph.mul %1, %1 : tensor<4x2xf32>
  %7 = graph.reduce sum %6 over [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
  %size = graph.constant dense<8.0> : tensor<f32>
  %8 = graph.div %7, %size : tensor<f32>
  %9 = graph.exp %8 : tensor<f32>
  %y = graph.add %5, %9 : tensor<f32>
  return %y : tensor<f32>
}

// -----

// Scores of each sample with each other one depend on the whole batch, also
// where what is made of them is a mean over rows.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<f32> {graph.role = #graph.mean<"output(loss)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<1>})

// expected-remark @+3 {{'loss' is taken as a mean: the loss is its mean over the microbatches, each with the same weight}}
// expected-remark @+2 {{'loss' has a part that is no mean over samples: reduce}}
graph.parameter @w : tensor<4xf32> at "m.onnx" offset 0 length 16 {trainable}
func.func @forward(%w: tensor<4xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4x2xf32> {graph.role = #graph.input<"x">})
    -> (tensor<f32> {graph.role = #graph.output<"loss">}) {
  %0 = graph.matmul %x, %x batch [] x [] contract [1] x [1] : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %1 = graph.reduce max %0 over [1] : (tensor<4x4xf32>) -> tensor<4xf32>
  %2 = graph.mul %1, %w : tensor<4xf32>
  %3 = graph.reduce sum %2 over [0] : (tensor<4xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
