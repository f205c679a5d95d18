// RUN: polyrank-opt %s --shard-updates=threshold=1 | FileCheck %s
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --evaluate=distributed
// State that is kept as a row says where its elements would be stored; where
// these are not one after another, there is no such row.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>

// CHECK-LABEL: func.func @consecutive
// CHECK-SAME: tensor<12xf32, #sharding.layout<#mesh, [{"data"}]>> {graph.role = #graph.state<"m" of @w view [24, 1]>}
// CHECK-SAME: -> (tensor<3x4xf32, #sharding.layout<#mesh, [{}, {}]>> {{{.*}}}, tensor<12xf32, #sharding.layout<#mesh, [{"data"}]>> {{{.*}}})
func.func @consecutive(%w: !w {graph.role = #graph.parameter<@w view [24, 4, 1]>}, %m: !w {graph.role = #graph.state<"m" of @w view [24, 4, 1]>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p : (!dw) -> !w
  %g = graph.gradient %r of @w view [24, 4, 1] : !w
  %next = graph.add %m, %g : !w
  %new = graph.sub %w, %next : !w
  return %new, %next : !w, !w
}

// State that somebody else reads is gathered for them.
// CHECK-LABEL: func.func @read_state
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<12xf32, #sharding.layout<#mesh, [{"data"}]>> {graph.role = #graph.state<"m" of @w view [0, 1]>}
// CHECK: %[[ALL:.*]] = sharding.reshard %[[M]] {{.*}} -> tensor<12xf32, #sharding.layout<#mesh, [{}]>>
// CHECK: %[[WHOLE:.*]] = graph.reshape %[[ALL]]
// CHECK: return %{{.*}}, %{{.*}}, %[[WHOLE]]
func.func @read_state(%w: !w {graph.role = #graph.parameter<@w>}, %m: !w {graph.role = #graph.state<"m" of @w>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !w {graph.role = #graph.output<"m">}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %next = graph.add %m, %g : !w
  %new = graph.sub %w, %next : !w
  return %new, %next, %m : !w, !w, !w
}

// Where its rows are not whole in the file, it cannot be a row: another dim is
// split.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: tensor<3x4xf32, #sharding.layout<#mesh, [{}, {"data"}]>> {graph.role = #graph.state<"m" of @w view [0, 1, 3]>}
func.func @transposed(%w: !w {graph.role = #graph.parameter<@w view [0, 1, 3]>}, %m: !w {graph.role = #graph.state<"m" of @w view [0, 1, 3]>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p : (!dw) -> !w
  %g = graph.gradient %r of @w view [0, 1, 3] : !w
  %next = graph.add %m, %g : !w
  %new = graph.sub %w, %next : !w
  return %new, %next : !w, !w
}
