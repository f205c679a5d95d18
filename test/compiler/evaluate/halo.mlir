// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz | FileCheck %s
// RUN: polyrank-opt %s --plan-reshards --evaluate=distributed --expect=%t.npz | FileCheck %s
// RUN: polyrank-opt %s --plan-reshards --localize --evaluate=ranks --expect=%t.npz | FileCheck %s
// RUN: polyrank-opt %s --plan-reshards --localize --form-segments --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks --expect=%t.npz --tolerance=1e-6 | FileCheck %s
// Windows over a split dim and their gradient: 13 rows in four blocks, every
// second one the first of a window, borders that reach beyond one neighbour,
// and a sum that is partial at the same time.

// CHECK: @windows

#mesh = #sharding.mesh<["space"=4, "data"=2]>
!x = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16]>>
!wide = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 halo 6:5]>>
!w = tensor<2x7x7xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 8, {}]>>
!sums = tensor<2x13xf32, #sharding.layout<#mesh, [{"data"}, {"space"} pad 16 spill 6:5]>>
!whole = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {}]>>
!p = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {"space"} pad 16], partial = sum {"data"}>>
!pwide = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {"space"} pad 16 halo 6:5], partial = sum {"data"}>>
!pw = tensor<2x7x7xf32, #sharding.layout<#mesh, [{}, {"space"} pad 8, {}], partial = sum {"data"}>>
!psums = tensor<2x13xf32, #sharding.layout<#mesh, [{}, {"space"} pad 16 spill 6:5], partial = sum {"data"}>>
func.func @windows(%x: !x, %p: !p) -> (!whole, !w, !whole) {
  %0 = sharding.halo %x : (!x) -> !wide
  %1 = graph.unfold %0 {dim = 1 : i64, size = 7 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64, high = 6 : i64, value = -2.0 : f64} : (!wide) -> !w
  %2 = graph.fold %1 {dim = 1 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64} : (!w) -> !sums
  %3 = sharding.halo_add %2 : (!sums) -> !x
  %4 = sharding.reshard %3 : (!x) -> !whole
  %5 = sharding.halo %p : (!p) -> !pwide
  %6 = graph.unfold %5 {dim = 1 : i64, size = 7 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64, high = 6 : i64} : (!pwide) -> !pw
  %7 = graph.fold %6 {dim = 1 : i64, stride = 2 : i64, dilation = 2 : i64, low = 6 : i64} : (!pw) -> !psums
  %8 = sharding.reshard %7 : (!psums) -> !whole
  return %4, %1, %8 : !whole, !w, !whole
}
