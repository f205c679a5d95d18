// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5)' --canonicalize --cse | FileCheck %s --check-prefix=STEP
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5)' --canonicalize --cse --localize --form-loops --form-gemms --form-kernels --lower-kernels --assign-buffers --check-buffers | FileCheck %s --check-prefix=PLACE
// The example of docs/loops.md.

graph.parameter @w : tensor<3x3xf32> at "m.onnx" offset 0 length 36 {trainable}
func.func @forward(%batch: tensor<4x16x3xf32> {graph.role = #graph.input<"x">}, %w: tensor<3x3xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<f32> {graph.role = #graph.mean<"sum" weight 1.0 : f64>}, tensor<f32> {graph.role = #graph.count<4>}) {
  %x = graph.transpose %batch {permutation = array<i64: 1, 0, 2>} : (tensor<4x16x3xf32>) -> tensor<16x4x3xf32>
  %h = graph.constant dense<0.0> : tensor<4x3xf32>
  %ys, %last = graph.scan 16 of(%x) carry(%h) uses(%w) {
  ^bb0(%e: tensor<4x3xf32>, %before: tensor<4x3xf32>, %weight: tensor<3x3xf32>):
    %product = graph.matmul %before, %weight batch [] x [] contract [1] x [0] : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %sum = graph.add %e, %product : tensor<4x3xf32>
    %next = graph.tanh %sum : tensor<4x3xf32>
    graph.scan_yield stack(%next) carry(%next) : tensor<4x3xf32>, tensor<4x3xf32>
  } : (tensor<16x4x3xf32>, tensor<4x3xf32>, tensor<3x3xf32>) -> (tensor<16x4x3xf32>, tensor<4x3xf32>)
  %loss = graph.reduce sum %last over [0, 1] : (tensor<4x3xf32>) -> tensor<f32>
  %count = graph.constant dense<4.0> : tensor<f32>
  return %loss, %count : tensor<f32>, tensor<f32>
}

// STEP: %[[KEPT:.+]]:3 = graph.scan 16 of(
// STEP: %[[BACK:.+]]:2 = graph.scan 16 reversed of(%[[KEPT]]#0)
// STEP: graph.matmul %[[KEPT]]#1, %[[BACK]]#0 batch [] x [] contract [0, 1] x [0, 1]

// PLACE: rank.launch @kernel.mul_sub(%{{.+}}, %{{.+}}) {buffers = [#rank.buffer<private, {{[0-9]+}}, 48 each -48>]
