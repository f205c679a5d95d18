// RUN: polyrank-opt %s --shard-updates=threshold=15 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: polyrank-opt %s --shard-updates=threshold=15 --plan-reshards --bucket-collectives --check-partition --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --shard-updates=threshold=15 --plan-reshards --bucket-collectives --check-partition --localize --evaluate=ranks | FileCheck %s --check-prefix=VALUE
// ZeRO stage 1: a device reduces, updates and keeps one part of what all would
// update alike, and the new parameter is gathered.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!w = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!scalar = tensor<f32, #sharding.layout<#mesh, []>>

// State is split for good. What several updates share is made for each.
// VALUE: @momentum
// CHECK-LABEL: func.func @momentum
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.parameter<@w>}
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.state<"momentum" of @w>
// CHECK-DAG: %[[G:.*]] = sharding.reshard %{{.*}} {why = #sharding.reason<from = "[-,-] partial sum over data", to = "[data,-]", constraint = "batch">}
// CHECK-DAG: %[[OLD:.*]] = sharding.reshard %[[W]] {{.*}} constraint = "each device over data updates its part (--zero 1)"
// CHECK-DAG: %[[RATE:.*]] = graph.broadcast %{{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[MUL:.*]] = graph.mul %[[M]], %{{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[NEXT:.*]] = graph.add %[[MUL]], %[[G]]
// CHECK: %[[STEP:.*]] = graph.mul %[[NEXT]], %[[RATE]]
// CHECK: %[[PART:.*]] = graph.sub %[[OLD]], %[[STEP]]
// CHECK: %[[NEW:.*]] = sharding.reshard %[[PART]] {{.*}}from = "[data,-]", {{.*}}to = "[-,-]"
// CHECK: return %[[NEW]], %[[NEXT]],
// REMARK: remark: the updates of 1 parameter are split over data: each device keeps one of 2 parts of their optimizer state (--zero 0 keeps all)
func.func @momentum(%w: !w {graph.role = #graph.parameter<@w>}, %m: !w {graph.role = #graph.state<"momentum" of @w>}, %dw: !w {graph.role = #graph.input<"dw">}, %rate: !scalar {graph.role = #graph.input<"rate">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !w {graph.role = #graph.output<"rate">}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p {why = #sharding.reason<constraint = "batch">} : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %decay = graph.constant dense<5.0e-01> : !w
  %spread = graph.broadcast %rate {dims = array<i64>} : (!scalar) -> !w
  %old = graph.mul %m, %decay : !w
  %next = graph.add %old, %g : !w
  %step = graph.mul %next, %spread : !w
  %new = graph.sub %w, %step : !w
  return %new, %next, %spread : !w, !w, !w
}

// 7 rows do not divide by 2, 28 elements do.
!odd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dodd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// CHECK-LABEL: func.func @row
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.parameter<@w>}
// CHECK-DAG: %[[P:.*]] = graph.reshape %{{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{}], partial = sum {"data"}>>
// CHECK-DAG: %[[G:.*]] = sharding.reshard %[[P]] {{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{"data"}]>>
// CHECK-DAG: %[[R:.*]] = graph.reshape %[[W]] {{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{}]>>
// CHECK-DAG: %[[OLD:.*]] = sharding.reshard %[[R]] {{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{"data"}]>>
// CHECK: %[[PART:.*]] = graph.sub %[[OLD]], %[[G]]
// CHECK: %[[ALL:.*]] = sharding.reshard %[[PART]] {{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{}]>>
// CHECK: %[[NEW:.*]] = graph.reshape %[[ALL]] {{.*}} -> tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: return %[[NEW]]
// REMARK: remark: the updates of 1 parameter are split over data
func.func @row(%w: !odd {graph.role = #graph.parameter<@w>}, %dw: !odd {graph.role = #graph.input<"dw">}) -> (!odd {graph.role = #graph.next<0>}) {
  %p = sharding.to_partial %dw : (!odd) -> !dodd
  %r = sharding.reshard %p : (!dodd) -> !odd
  %g = graph.gradient %r of @w : !odd
  %new = graph.sub %w, %g : !odd
  return %new : !odd
}

// Blocks of blocks: the axis becomes the most minor one.
!split = tensor<8x4xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!dsplit = tensor<8x4xf32, #sharding.layout<#mesh, [{"tensor"}, {}], partial = sum {"data"}>>
// CHECK-LABEL: func.func @both
// CHECK: graph.sub {{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"tensor", "data"}, {}]>>
// REMARK: remark: the updates of 1 parameter are split over data
func.func @both(%w: !split {graph.role = #graph.parameter<@w>}, %dw: !split {graph.role = #graph.input<"dw">}) -> (!split {graph.role = #graph.next<0>}) {
  %p = sharding.to_partial %dw : (!split) -> !dsplit
  %r = sharding.reshard %p : (!dsplit) -> !split
  %g = graph.gradient %r of @w : !split
  %new = graph.sub %w, %g : !split
  return %new : !split
}

// A gradient that somebody else wants is gathered for them; another parameter is
// small; a third does not divide, and is updated as a padded row.
!small = tensor<2x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dsmall = tensor<2x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!three = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}]>>
!dthree = tensor<3x5xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// CHECK-LABEL: func.func @gradient_is_read
// CHECK: %[[PART:.*]] = sharding.reshard %{{.*}} {{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: graph.sub {{.*}} : tensor<2x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: graph.sub {{.*}} : tensor<15xf32, #sharding.layout<#mesh, [{"data"} pad 16]>>
// CHECK: %[[ALL:.*]] = sharding.reshard %[[PART]] {{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[ALL]]
// REMARK: remark: the updates of 2 parameters are split over data
func.func @gradient_is_read(%w: !w {graph.role = #graph.parameter<@w>}, %s: !small {graph.role = #graph.parameter<@s>}, %t: !three {graph.role = #graph.parameter<@t>}, %dw: !w {graph.role = #graph.input<"dw">}, %ds: !small {graph.role = #graph.input<"ds">}, %dt: !three {graph.role = #graph.input<"dt">}) -> (!w {graph.role = #graph.next<0>}, !small {graph.role = #graph.next<1>}, !three {graph.role = #graph.next<2>}, !w {graph.role = #graph.output<"gradient">}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %new = graph.sub %w, %g : !w
  %ps = sharding.to_partial %ds : (!small) -> !dsmall
  %rs = sharding.reshard %ps : (!dsmall) -> !small
  %gs = graph.gradient %rs of @s : !small
  %news = graph.sub %s, %gs : !small
  %pt = sharding.to_partial %dt : (!three) -> !dthree
  %rt = sharding.reshard %pt : (!dthree) -> !three
  %gt = graph.gradient %rt of @t : !three
  %newt = graph.sub %t, %gt : !three
  return %new, %news, %newt, %g : !w, !small, !three, !w
}
