// RUN: polyrank-opt %s --assign-buffers -split-input-file -verify-diagnostics

func.func @no_command(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{is not a command; form-gemms and form-kernels come before buffers are assigned}}
  %0 = graph.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----
func.func @two_loops(%x: tensor<2x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<8xf32>):
    rank.yield %xi : tensor<8xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{is the second microbatch region of a function}}
  %1 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<8xf32>):
    rank.yield %xi : tensor<8xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
