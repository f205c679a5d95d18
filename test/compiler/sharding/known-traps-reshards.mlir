// RUN: polyrank-opt %s --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --evaluate=global | sed 's/ global//' > %t.whole
// RUN: polyrank-opt %s --plan-reshards --localize --evaluate=ranks | sed 's/ ranks//' | diff - %t.whole
// Changes of layout at which other sharding systems crash, lose elements or move
// far too much. Each here is planned, keeps its value on every device, and
// moves what it must.

#mesh = #sharding.mesh<["x"=2, "y"=2]>
#four = #sharding.mesh<["a"=4]>
!whole = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!rowsXY = tensor<8x8xf32, #sharding.layout<#mesh, [{"x", "y"}, {}]>>
!rows = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>
!columnsX = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"x"}]>>
!columnsY = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"y"}]>>
!both = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>
!crossed = tensor<8x8xf32, #sharding.layout<#mesh, [{"y"}, {"x"}]>>
!sum = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"x"}>>
!max = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = max {"x"}>>
!bigColumnsXY = tensor<256x256xf32, #sharding.layout<#mesh, [{}, {"x", "y"}]>>
!bigRowsYX = tensor<256x256xf32, #sharding.layout<#mesh, [{"y", "x"}, {}]>>
!ten = tensor<10x4xf32, #sharding.layout<#four, [{}, {}]>>
!tenSplit = tensor<10x4xf32, #sharding.layout<#four, [{"a"} pad 12, {}]>>
!tenColumns = tensor<10x4xf32, #sharding.layout<#four, [{}, {"a"}]>>
!half = tensor<8x8xf32, #sharding.layout<#four, [{"a":(1)2}, {"a":(2)2}]>>
!joined = tensor<8x8xf32, #sharding.layout<#four, [{"a"}, {}]>>

// MLIR 22's sharding dialect crashes where two axes leave one dim.
// VALUE: @two_axes_leave_one_dim distributed
// CHECK-LABEL: @two_axes_leave_one_dim
// CHECK-NEXT: sharding.all_gather
// CHECK-NEXT: return
func.func @two_axes_leave_one_dim(%x: !rowsXY) -> !whole {
  %y = sharding.reshard %x : (!rowsXY) -> !whole
  return %y : !whole
}

// It crashes where an axis changes the dim.
// CHECK-LABEL: @an_axis_changes_its_dim
// CHECK-NEXT: sharding.all_to_all
// CHECK-NEXT: return
func.func @an_axis_changes_its_dim(%x: !rows) -> !columnsX {
  %y = sharding.reshard %x : (!rows) -> !columnsX
  return %y : !columnsX
}

// It splits one of two dims. TensorFlow's DTensor has no way between these
// either ("x, y" to "z, y").
// CHECK-LABEL: @two_dims_are_split_at_once
// CHECK-NEXT: sharding.slice
// CHECK-NEXT: sharding.slice
// CHECK-NEXT: return
func.func @two_dims_are_split_at_once(%x: !whole) -> !both {
  %y = sharding.reshard %x : (!whole) -> !both
  return %y : !both
}

// Another axis on another dim: DTensor's greedy way is through the whole tensor.
// CHECK-LABEL: @split_to_split_never_gathers_the_whole
// CHECK-NOT: sharding.all_gather {{.*}} -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: return
func.func @split_to_split_never_gathers_the_whole(%x: !rows) -> !columnsY {
  %y = sharding.reshard %x : (!rows) -> !columnsY
  return %y : !columnsY
}

// CHECK-LABEL: @axes_are_exchanged
// CHECK-NEXT: sharding.permute
// CHECK-NEXT: return
func.func @axes_are_exchanged(%x: !both) -> !crossed {
  %y = sharding.reshard %x : (!both) -> !crossed
  return %y : !crossed
}

// Shardy's greedy search takes a permute and an all_to_all.
// CHECK-LABEL: @two_all_to_alls_instead_of_a_permute_and_one
// CHECK-NEXT: sharding.all_to_all
// CHECK-NEXT: sharding.all_to_all
// CHECK-NEXT: return
func.func @two_all_to_alls_instead_of_a_permute_and_one(%x: !bigColumnsXY) -> !bigRowsYX {
  %y = sharding.reshard %x : (!bigColumnsXY) -> !bigRowsYX
  return %y : !bigRowsYX
}

// PyTorch's planner: "S(0)->P not supported yet".
// CHECK-LABEL: @split_to_partial
// CHECK: sharding.to_partial
// CHECK: return
func.func @split_to_partial(%x: !rows) -> !sum {
  %y = sharding.reshard %x : (!rows) -> !sum
  return %y : !sum
}

// One kind of partial into another: the sum is finished first.
// CHECK-LABEL: @partial_sum_to_partial_max
// CHECK-NEXT: sharding.all_reduce
// CHECK-NEXT: sharding.to_partial
// CHECK-NEXT: return
func.func @partial_sum_to_partial_max(%x: !sum) -> !max {
  %y = sharding.reshard %x : (!sum) -> !max
  return %y : !max
}

// MLIR 22 gives each of four devices two of ten rows, and two rows are lost.
// CHECK-LABEL: @ten_rows_on_four_devices
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: sharding.slice
// CHECK-NEXT: return
func.func @ten_rows_on_four_devices(%x: !ten) -> !tenSplit {
  %y = sharding.reshard %x : (!ten) -> !tenSplit
  return %y : !tenSplit
}

// Padding does not survive as elements. (Shardy has an all_to_all into a dim that
// is too small as an open problem.)
// CHECK-LABEL: @padded_rows_to_columns
// CHECK-NEXT: sharding.all_to_all
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: return
func.func @padded_rows_to_columns(%x: !tenSplit) -> !tenColumns {
  %y = sharding.reshard %x : (!tenSplit) -> !tenColumns
  return %y : !tenColumns
}

// Shardy merged sub-axes wrongly: two halves of an axis, joined, are the axis.
// CHECK-LABEL: @halves_of_an_axis_join
// CHECK-NEXT: sharding.all_to_all {{.*}} -> tensor<8x8xf32, #sharding.layout<#mesh1, [{"a"}, {}]>>
// CHECK-NEXT: return
func.func @halves_of_an_axis_join(%x: !half) -> !joined {
  %y = sharding.reshard %x : (!half) -> !joined
  return %y : !joined
}

// The devices that do not keep a value hold the identity in its padding too:
// zeros that were there are filled in again.
!zeros = tensor<10x4xf32, #sharding.layout<#four, [{} pad 12 fill zero, {}]>>
!zerosMax = tensor<10x4xf32, #sharding.layout<#four, [{} pad 12 fill zero, {}], partial = max {"a"}>>
// CHECK-LABEL: @padding_of_a_partial_maximum
// CHECK-NEXT: sharding.to_partial
// CHECK-NEXT: sharding.fill
// CHECK-NEXT: return
func.func @padding_of_a_partial_maximum(%x: !zeros) -> !zerosMax {
  %y = sharding.reshard %x : (!zeros) -> !zerosMax
  return %y : !zerosMax
}

// The identity of a minimum of integers is the largest integer, and true.
!integers = tensor<4xi64, #sharding.layout<#four, [{}]>>
!integersMin = tensor<4xi64, #sharding.layout<#four, [{}], partial = min {"a"}>>
!booleans = tensor<4xi1, #sharding.layout<#four, [{}]>>
!booleansMin = tensor<4xi1, #sharding.layout<#four, [{}], partial = min {"a"}>>
// CHECK-LABEL: @a_minimum_of_integers
func.func @a_minimum_of_integers(%x: !integers, %b: !booleans) -> (!integersMin, !booleansMin) {
  %y = sharding.reshard %x : (!integers) -> !integersMin
  %c = sharding.reshard %b : (!booleans) -> !booleansMin
  return %y, %c : !integersMin, !booleansMin
}
