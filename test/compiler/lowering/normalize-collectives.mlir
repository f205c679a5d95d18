// RUN: polyrank-opt %s --normalize-collectives | FileCheck %s
// The communicator of ranks of one machine has strides and halos: nothing changes.

#mesh = #sharding.mesh<["data"=2]>
// CHECK-LABEL: func @unchanged
func.func @unchanged(%x: tensor<3x4xf32>) -> (tensor<3x8xf32>, tensor<3x6xf32>) {
  // CHECK-NEXT: %[[A:.*]] = rank.all_gather %{{.*}} dims [1]
  %0 = rank.all_gather %x dims [1] over <#mesh, {"data"}> id 0 : (tensor<3x4xf32>) -> tensor<3x8xf32>
  // CHECK-NEXT: %[[B:.*]] = rank.halo %{{.*}} dims [1] low [1] high [1]
  %1 = rank.halo %x dims [1] low [1] high [1] over <#mesh, {"data"}> id 1 : (tensor<3x4xf32>) -> tensor<3x6xf32>
  // CHECK-NEXT: return %[[A]], %[[B]]
  return %0, %1 : tensor<3x8xf32>, tensor<3x6xf32>
}
