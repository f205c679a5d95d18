// RUN: polyrank-opt %s --form-segments=ahead=2 -split-input-file -verify-diagnostics

// The next microbatch's forward needs what this one's backward computes.
func.func @handed_on_late(%x: tensor<3x8xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{hands on value 0, which 'forward' reads and 'backward' computes: no other microbatch can go forward in between}}
  %0 = graph.microbatches count = 3 of(%x) carry(%s) {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>, %si: tensor<8xf32>):
    %t = graph.add %xi, %si : tensor<8xf32>
    %g = graph.neg %t {graph.phase = #graph.phase<backward>} : tensor<8xf32>
    graph.yield sum() carry(%g) : tensor<8xf32>
  } : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
