// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// Layouts are printed in their canonical form.

// CHECK: #mesh = #sharding.mesh<["data"=2, "tensor"=4]>
#mesh = #sharding.mesh<["data"=2, "tensor"=4]>

// CHECK-LABEL: @split_dims
// CHECK-SAME: #sharding.layout<#mesh, [{"data"}, {"tensor"}]>
func.func private @split_dims(tensor<8x8xf32, #sharding.layout<#mesh, [{"data"}, {"tensor"}]>>)

// CHECK-LABEL: @adjacent_sub_axes_merge
// CHECK-SAME: #sharding.layout<#mesh, [{"tensor"}]>
func.func private @adjacent_sub_axes_merge(tensor<8xf32, #sharding.layout<#mesh, [{"tensor":(1)2, "tensor":(2)2}]>>)

// CHECK-LABEL: @sub_axes_in_another_order_stay
// CHECK-SAME: #sharding.layout<#mesh, [{"tensor":(2)2, "tensor":(1)2}]>
func.func private @sub_axes_in_another_order_stay(tensor<8xf32, #sharding.layout<#mesh, [{"tensor":(2)2, "tensor":(1)2}]>>)

// CHECK-LABEL: @partial_axes_are_in_mesh_order
// CHECK-SAME: partial = max {"data", "tensor"}>
func.func private @partial_axes_are_in_mesh_order(tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"tensor", "data"}>>)

// CHECK-LABEL: @padded_filled_halo_placed
// CHECK-SAME: #sharding.layout<#mesh, [{"tensor"} pad 12 fill neg_inf halo 1:2], at {"data" = 1}>
func.func private @padded_filled_halo_placed(tensor<10xf32, #sharding.layout<#mesh, [{"tensor"} pad 12 fill neg_inf halo 1:2], at {"data" = 1}>>)

// CHECK-LABEL: @sums_for_the_neighbours
// CHECK-SAME: #sharding.layout<#mesh, [{"tensor"} pad 12 spill 1:2]>
func.func private @sums_for_the_neighbours(tensor<10xf32, #sharding.layout<#mesh, [{"tensor"} pad 12 spill 1:2]>>)
