// RUN: polyrank-opt %s --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Each reshard becomes the cheapest sequence of collectives.

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!whole = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!rows = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>
!columns = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"x"}]>>
!both = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>
!swapped = tensor<8x8xf32, #sharding.layout<#mesh, [{"y"}, {"x"}]>>
!sum = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"x"}>>
!seven = tensor<7xf32, #sharding.layout<#mesh, [{}]>>
!padded = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 fill zero]>>

// VALUE: @rows_to_columns distributed
// CHECK-LABEL: @rows_to_columns
// CHECK-NEXT: sharding.all_to_all %{{.*}} {why = #sharding.reason<user = "b">}
// CHECK-NEXT: return
func.func @rows_to_columns(%x: !rows) -> !columns {
  %y = sharding.reshard %x {why = #sharding.reason<user = "b">} : (!rows) -> !columns
  return %y : !columns
}

// CHECK-LABEL: @sum_to_rows
// CHECK-NEXT: sharding.reduce_scatter
// CHECK-NEXT: return
func.func @sum_to_rows(%x: !sum) -> !rows {
  %y = sharding.reshard %x : (!sum) -> !rows
  return %y : !rows
}

// CHECK-LABEL: @swap_axes
// CHECK-NEXT: sharding.permute
// CHECK-NEXT: return
func.func @swap_axes(%x: !both) -> !swapped {
  %y = sharding.reshard %x : (!both) -> !swapped
  return %y : !swapped
}

// CHECK-LABEL: @pad_and_split
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: sharding.slice
// CHECK-NEXT: return
func.func @pad_and_split(%x: !seven) -> !padded {
  %y = sharding.reshard %x : (!seven) -> !padded
  return %y : !padded
}

// CHECK-LABEL: @gather_and_trim
// CHECK-NEXT: sharding.all_gather
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: return
func.func @gather_and_trim(%x: !padded) -> !seven {
  %y = sharding.reshard %x : (!padded) -> !seven
  return %y : !seven
}

// Borders come last, sums for the neighbours first.
!bordered = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 halo 1:2]>>
!spilled = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 spill 1:2], partial = sum {"y"}>>

// CHECK-LABEL: @split_and_widen
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: sharding.slice
// CHECK-NEXT: sharding.halo
// CHECK-NEXT: return
func.func @split_and_widen(%x: !seven) -> !bordered {
  %y = sharding.reshard %x : (!seven) -> !bordered
  return %y : !bordered
}

// CHECK-LABEL: @add_and_gather
// CHECK-NEXT: sharding.halo_add
// CHECK-NEXT: sharding.reduce_scatter
// CHECK-NEXT: sharding.all_gather
// CHECK-NEXT: sharding.repad
// CHECK-NEXT: return
func.func @add_and_gather(%x: !spilled) -> !seven {
  %y = sharding.reshard %x : (!spilled) -> !seven
  return %y : !seven
}
