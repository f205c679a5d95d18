// RUN: polyrank-opt %s --form-kernels | FileCheck %s
// Found by random programs: a reduction in the same kernel left its dims to the
// scatter, whose updates have fewer.

// CHECK-DAG: rank.kernel @kernel.reduce
// CHECK-DAG: rank.kernel @kernel.scatter_add
func.func @step(%x: tensor<4x3x5xf32>, %i: tensor<4xi64>) -> tensor<6x3xf32> {
  %s = graph.reduce sum %x over [2] : (tensor<4x3x5xf32>) -> tensor<4x3xf32>
  %r = graph.scatter_add %i, %s {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4xi64>, tensor<4x3xf32>) -> tensor<6x3xf32>
  return %r : tensor<6x3xf32>
}
