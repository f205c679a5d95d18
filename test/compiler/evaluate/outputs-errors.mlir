// RUN: polyrank-opt %s --evaluate=global > /dev/null
// RUN: rm -f %t.npz
// RUN: not polyrank-opt %s --evaluate=global --outputs=%t.npz 2>&1 | FileCheck %s
// RUN: not ls %t.npz
// Two functions have a result of one name, which a .npz set cannot hold.

func.func @first(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
// CHECK: error: two results are called 'result0', and {{.*}}.npz has one array for each name: evaluate one function at a time
func.func @second(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
