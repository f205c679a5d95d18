// RUN: polyrank-opt %s --form-kernels | FileCheck %s
// Found by random programs: ops that nobody needs counted as users, so that
// loops were measured with outputs that the kernel does not have.

// CHECK: rank.kernel @kernel.mul_reduce
// CHECK-NOT: graph.exp
func.func @step(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<3xf32> {
  %p = graph.mul %x, %y : tensor<4x3xf32>
  %dead = graph.exp %p : tensor<4x3xf32>
  %s = graph.reduce sum %p over [0] : (tensor<4x3xf32>) -> tensor<3xf32>
  return %s : tensor<3xf32>
}
