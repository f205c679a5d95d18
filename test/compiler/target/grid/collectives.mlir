// The communicator of the second target moves runs of bytes alone and knows no
// borders: what it lacks is written as what it has, and means the same.

// RUN: polyrank-opt %s --plan-reshards --localize > %t.local.mlir
// RUN: polyrank-opt %t.local.mlir --normalize-collectives > %t.normal.mlir
// RUN: FileCheck %s < %t.normal.mlir
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %t.local.mlir --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %t.normal.mlir --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %t.normal.mlir --form-segments --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks --expect=%t.npz --tolerance=1e-6

#mesh = #sharding.mesh<["space"=4, "data"=2]>

// Borders of six and five rows, of blocks of four: two permutes for each.
!x = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16]>>
!wide = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 halo 6:5]>>
!w = tensor<2x7x7xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 8, {}]>>
!sums = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 spill 6:5]>>
!whole = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK-LABEL: func @windows
// CHECK-NOT: rank.halo
// CHECK: %[[NEAR:.*]] = rank.permute %{{.*}} from [3, 0, 1, 2] over <#mesh, {"space"}>{{.*}} (tensor<1x4xf32>) -> tensor<1x4xf32>
// CHECK: %[[FAR:.*]] = rank.permute %{{.*}} from [2, 3, 0, 1] over <#mesh, {"space"}>{{.*}} (tensor<1x2xf32>) -> tensor<1x2xf32>
// CHECK-NOT: rank.halo %
func.func @windows(%x: !x) -> (!whole, !w) {
  %0 = sharding.halo %x : (!x) -> !wide
  %1 = graph.unfold %0 {dim = 1 : i64, size = 7 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64, high = 6 : i64, value = -2.0 : f64} : (!wide) -> !w
  %2 = graph.fold %1 {dim = 1 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64} : (!w) -> !sums
  %3 = sharding.halo_add %2 : (!sums) -> !x
  %4 = sharding.reshard %3 : (!x) -> !whole
  return %4, %1 : !whole, !w
}

// Columns: gathered, reduced, and exchanged for rows and for another dim.
!columns = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {"space"}, {}]>>
!last = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {"space"}]>>
!rows = tensor<8x12x4xf32, #sharding.layout<#mesh, [{"space"}, {}, {}]>>
!all = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {}]>>
!partial = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {}], partial = sum {"space"}>>
// CHECK-LABEL: func @columns
// CHECK: rank.all_gather %{{.*}} dims [0] over <#mesh, {"space"}>{{.*}} : (tensor<3x8x4xf32>) -> tensor<12x8x4xf32>
// CHECK: rank.reduce_scatter sum %{{.*}} dims [0] over <#mesh, {"space"}>{{.*}} : (tensor<12x8x4xf32>) -> tensor<3x8x4xf32>
// CHECK: rank.all_to_all %{{.*}} split [0] concat [1] over <#mesh, {"space"}>{{.*}} : (tensor<4x1x2x3x4xf32>) -> tensor<1x4x2x3x4xf32>
// CHECK: rank.all_to_all %{{.*}} split [0] concat [1] over <#mesh, {"space"}>{{.*}} : (tensor<4x1x8x3x1xf32>) -> tensor<1x4x8x3x1xf32>
func.func @columns(%x: !columns, %p: !partial) -> (!all, !columns, !rows, !last) {
  %0 = sharding.reshard %x : (!columns) -> !all
  %1 = sharding.reshard %p : (!partial) -> !columns
  %2 = sharding.reshard %x : (!columns) -> !rows
  %3 = sharding.reshard %x : (!columns) -> !last
  return %0, %1, %2, %3 : !all, !columns, !rows, !last
}
