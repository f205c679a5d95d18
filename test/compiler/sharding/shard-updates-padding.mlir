// RUN: polyrank-opt %s --shard-updates=threshold=1 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --check-partition --evaluate=distributed
// RUN: polyrank-opt %s --shard-updates="threshold=1 stage=3" 2>/dev/null | FileCheck %s --check-prefix=THREE
// RUN: polyrank-opt %s --shard-updates="threshold=1 stage=3" --plan-reshards --check-partition --evaluate=distributed
// What does not divide is padded: as little as can be, with zeros in what is
// kept from step to step.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>

!odd = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}]>>
!dodd = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// A row of 15 elements grows by one.
// CHECK-LABEL: func.func @odd
// CHECK-SAME: tensor<15xf32, #sharding.layout<#mesh, [{"data"} pad 16 fill zero]>> {graph.role = #graph.state<"m" of @w view [0, 1]>}
// CHECK: %[[PART:.*]] = graph.sub {{.*}} : tensor<15xf32, #sharding.layout<#mesh, [{"data"} pad 16]>>
// CHECK: sharding.reshard %[[PART]] {{.*}} -> tensor<15xf32, #sharding.layout<#mesh, [{}]>>
// REMARK: the parts of w are padded, since nothing of them divides; that takes 4 bytes more on all devices
// THREE-LABEL: func.func @odd
// THREE-SAME: tensor<15xf32, #sharding.layout<#mesh, [{"data"} pad 16 fill zero]>> {graph.role = #graph.parameter<@w view [0, 1]>}
func.func @odd(%w: !odd {graph.role = #graph.parameter<@w>}, %m: !odd {graph.role = #graph.state<"m" of @w>}, %dw: !odd {graph.role = #graph.input<"dw">}) -> (!odd {graph.role = #graph.next<0>}, !odd {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!odd) -> !dodd
  %r = sharding.reshard %p : (!dodd) -> !odd
  %g = graph.gradient %r of @w : !odd
  %next = graph.add %m, %g : !odd
  %new = graph.sub %w, %next : !odd
  return %new, %next : !odd, !odd
}

!column = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}]>>
!dcolumn = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// Its rows are not whole in the file: the dim that grows least, 5 to 6.
// CHECK-LABEL: func.func @column
// CHECK-SAME: tensor<3x5xf32, #sharding.layout<#mesh, [{}, {"data"} pad 6 fill zero]>> {graph.role = #graph.state
// REMARK: the parts of w are padded, since nothing of them divides; that takes 12 bytes more on all devices
// THREE-LABEL: func.func @column
// THREE-SAME: tensor<3x5xf32, #sharding.layout<#mesh, [{}, {"data"} pad 6 fill zero]>> {graph.role = #graph.parameter
func.func @column(%w: !column {graph.role = #graph.parameter<@w view [0, 1, 3]>}, %m: !column {graph.role = #graph.state<"m" of @w view [0, 1, 3]>}, %dw: !column {graph.role = #graph.input<"dw">}) -> (!column {graph.role = #graph.next<0>}, !column {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!column) -> !dcolumn
  %r = sharding.reshard %p : (!dcolumn) -> !column
  %g = graph.gradient %r of @w view [0, 1, 3] : !column
  %next = graph.add %m, %g : !column
  %new = graph.sub %w, %next : !column
  return %new, %next : !column, !column
}

!cut = tensor<3x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!dcut = tensor<3x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}], partial = sum {"data"}>>
// No row, since another dim is cut; that one divides.
// CHECK-LABEL: func.func @cut
// CHECK-SAME: tensor<3x4xf32, #sharding.layout<#mesh, [{}, {"tensor", "data"}]>> {graph.role = #graph.state
// REMARK-NOT: padded
func.func @cut(%w: !cut {graph.role = #graph.parameter<@w>}, %m: !cut {graph.role = #graph.state<"m" of @w>}, %dw: !cut {graph.role = #graph.input<"dw">}) -> (!cut {graph.role = #graph.next<0>}, !cut {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!cut) -> !dcut
  %r = sharding.reshard %p : (!dcut) -> !cut
  %g = graph.gradient %r of @w : !cut
  %next = graph.add %m, %g : !cut
  %new = graph.sub %w, %next : !cut
  return %new, %next : !cut, !cut
}

!thin = tensor<3x2xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!dthin = tensor<3x2xf32, #sharding.layout<#mesh, [{}, {"tensor"}], partial = sum {"data"}>>
// One column on each device: the other dim, 3 to 4.
// CHECK-LABEL: func.func @thin
// CHECK-SAME: tensor<3x2xf32, #sharding.layout<#mesh, [{"data"} pad 4 fill zero, {"tensor"}]>> {graph.role = #graph.state
// REMARK: the parts of w are padded, since nothing of them divides; that takes 8 bytes more on all devices
func.func @thin(%w: !thin {graph.role = #graph.parameter<@w>}, %m: !thin {graph.role = #graph.state<"m" of @w>}, %dw: !thin {graph.role = #graph.input<"dw">}) -> (!thin {graph.role = #graph.next<0>}, !thin {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!thin) -> !dthin
  %r = sharding.reshard %p : (!dthin) -> !thin
  %g = graph.gradient %r of @w : !thin
  %next = graph.add %m, %g : !thin
  %new = graph.sub %w, %next : !thin
  return %new, %next : !thin, !thin
}

!whole = tensor<6x1xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!dwhole = tensor<6x1xf32, #sharding.layout<#mesh, [{"tensor"}, {}], partial = sum {"data"}>>
// Blocks of 3 rows cannot be cut without moving rows from block to block.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: tensor<6x1xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>> {graph.role = #graph.state
// REMARK: each device updates w whole, and keeps 12 bytes of optimizer state: dim 0, 3, does not divide by 2, and as a row its blocks do not; a dim that is split already is not padded
func.func @whole(%w: !whole {graph.role = #graph.parameter<@w>}, %m: !whole {graph.role = #graph.state<"m" of @w>}, %dw: !whole {graph.role = #graph.input<"dw">}) -> (!whole {graph.role = #graph.next<0>}, !whole {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!whole) -> !dwhole
  %r = sharding.reshard %p : (!dwhole) -> !whole
  %g = graph.gradient %r of @w : !whole
  %next = graph.add %m, %g : !whole
  %new = graph.sub %w, %next : !whole
  return %new, %next : !whole, !whole
}

!one = tensor<1x1xf32, #sharding.layout<#mesh, [{}, {}]>>
!done = tensor<1x1xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// CHECK-LABEL: func.func @one
// CHECK-SAME: tensor<1x1xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.state
// REMARK: each device updates w whole, and keeps 4 bytes of optimizer state: it has one element
func.func @one(%w: !one {graph.role = #graph.parameter<@w>}, %m: !one {graph.role = #graph.state<"m" of @w>}, %dw: !one {graph.role = #graph.input<"dw">}) -> (!one {graph.role = #graph.next<0>}, !one {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!one) -> !done
  %r = sharding.reshard %p : (!done) -> !one
  %g = graph.gradient %r of @w : !one
  %next = graph.add %m, %g : !one
  %new = graph.sub %w, %next : !one
  return %new, %next : !one, !one
}
