// RUN: polyrank-opt %s --lower-kernels -split-input-file -verify-diagnostics

// expected-error @+1 {{cannot be one set of loops: result 1 is no function of the loop variables}}
rank.kernel @two(%x: tensor<64xf32>, %y: tensor<32xf32>) -> (tensor<64xf32>, tensor<32xf32>) {
  %0 = graph.neg %x : tensor<64xf32>
  %1 = graph.neg %y : tensor<32xf32>
  rank.return %0, %1 : tensor<64xf32>, tensor<32xf32>
}

// -----
// expected-error @+1 {{cannot be one set of loops: graph.tanh: there is no code for math.tanh on this element type}}
rank.kernel @double(%x: tensor<64xf64>) -> tensor<64xf64> {
  %0 = graph.tanh %x : tensor<64xf64>
  rank.return %0 : tensor<64xf64>
}

// -----
// expected-error @+1 {{cannot be one set of loops: graph.exp: exp is a function of floats}}
rank.kernel @integer(%x: tensor<64xi32>) -> tensor<64xi32> {
  %0 = graph.exp %x : tensor<64xi32>
  rank.return %0 : tensor<64xi32>
}

// -----
// expected-error @+1 {{has loops already}}
rank.kernel @again(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = kernel.loops [64] (%x : tensor<64xf32>) -> tensor<64xf32> {
    %1 = kernel.load %x[d0] : tensor<64xf32>
    kernel.store %1 to 0[d0] : f32
  }
  rank.return %0 : tensor<64xf32>
}
