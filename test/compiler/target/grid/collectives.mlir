// The communicator of the second target moves runs of bytes alone and knows no
// borders: what it lacks is written as what it has, and means the same.

// RUN: rm -rf %t && split-file %s %t
// RUN: polyrank-opt %t/windows.mlir --plan-reshards --localize > %t/windows-local.mlir
// RUN: polyrank-opt %t/windows-local.mlir --normalize-collectives > %t/windows-normal.mlir
// RUN: FileCheck %s --check-prefix=WINDOWS < %t/windows-normal.mlir
// RUN: polyrank-opt %t/windows.mlir --evaluate=global --outputs=%t/windows.npz
// RUN: polyrank-opt %t/windows-local.mlir --evaluate=ranks --expect=%t/windows.npz
// RUN: polyrank-opt %t/windows-normal.mlir --evaluate=ranks --expect=%t/windows.npz
// RUN: polyrank-opt %t/windows-normal.mlir --form-segments --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks --expect=%t/windows.npz --tolerance=1e-6

// RUN: polyrank-opt %t/columns.mlir --plan-reshards --localize > %t/columns-local.mlir
// RUN: polyrank-opt %t/columns-local.mlir --normalize-collectives > %t/columns-normal.mlir
// RUN: FileCheck %s --check-prefix=COLUMNS < %t/columns-normal.mlir
// RUN: polyrank-opt %t/columns.mlir --evaluate=global --outputs=%t/columns.npz
// RUN: polyrank-opt %t/columns-local.mlir --evaluate=ranks --expect=%t/columns.npz
// RUN: polyrank-opt %t/columns-normal.mlir --evaluate=ranks --expect=%t/columns.npz
// RUN: polyrank-opt %t/columns-normal.mlir --form-segments --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks --expect=%t/columns.npz --tolerance=1e-6

//--- windows.mlir
#mesh = #sharding.mesh<["space"=4, "data"=2]>

// Borders of six and five rows, of blocks of four: two permutes for each.
!x = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16]>>
!wide = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 halo 6:5]>>
!w = tensor<2x7x7xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 8, {}]>>
!sums = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 spill 6:5]>>
!whole = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {}]>>
// WINDOWS-LABEL: func @windows
// WINDOWS-NOT: rank.halo
// WINDOWS: %[[NEAR:.*]] = rank.permute %{{.*}} from [3, 0, 1, 2] over <#mesh, {"space"}>{{.*}} (tensor<1x4xf32>) -> tensor<1x4xf32>
// WINDOWS: %[[FAR:.*]] = rank.permute %{{.*}} from [2, 3, 0, 1] over <#mesh, {"space"}>{{.*}} (tensor<1x2xf32>) -> tensor<1x2xf32>
// WINDOWS-NOT: rank.halo %
func.func @windows(%x: !x) -> (!whole, !w) {
  %0 = sharding.halo %x : (!x) -> !wide
  %1 = graph.unfold %0 {dim = 1 : i64, size = 7 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64, high = 6 : i64, value = -2.0 : f64} : (!wide) -> !w
  %2 = graph.fold %1 {dim = 1 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64} : (!w) -> !sums
  %3 = sharding.halo_add %2 : (!sums) -> !x
  %4 = sharding.reshard %3 : (!x) -> !whole
  return %4, %1 : !whole, !w
}

//--- columns.mlir
#mesh = #sharding.mesh<["space"=4, "data"=2]>

// Columns: gathered, reduced, and exchanged for rows and for another dim.
!columns = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {"space"}, {}]>>
!last = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {"space"}]>>
!rows = tensor<8x12x4xf32, #sharding.layout<#mesh, [{"space"}, {}, {}]>>
!all = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {}]>>
!partial = tensor<8x12x4xf32, #sharding.layout<#mesh, [{}, {}, {}], partial = sum {"space"}>>
// COLUMNS-LABEL: func @columns
// COLUMNS: rank.all_gather %{{.*}} dims [0] over <#mesh, {"space"}>{{.*}} : (tensor<3x8x4xf32>) -> tensor<12x8x4xf32>
// COLUMNS: rank.reduce_scatter sum %{{.*}} dims [0] over <#mesh, {"space"}>{{.*}} : (tensor<12x8x4xf32>) -> tensor<3x8x4xf32>
// COLUMNS: rank.all_to_all %{{.*}} split [0] concat [1] over <#mesh, {"space"}>{{.*}} : (tensor<4x1x2x3x4xf32>) -> tensor<1x4x2x3x4xf32>
// COLUMNS: rank.all_to_all %{{.*}} split [0] concat [1] over <#mesh, {"space"}>{{.*}} : (tensor<4x1x8x3x1xf32>) -> tensor<1x4x8x3x1xf32>
func.func @columns(%x: !columns, %p: !partial) -> (!all, !columns, !rows, !last) {
  %0 = sharding.reshard %x : (!columns) -> !all
  %1 = sharding.reshard %p : (!partial) -> !columns
  %2 = sharding.reshard %x : (!columns) -> !rows
  %3 = sharding.reshard %x : (!columns) -> !last
  return %0, %1, %2, %3 : !all, !columns, !rows, !last
}
