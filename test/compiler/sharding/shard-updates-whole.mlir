// RUN: polyrank-opt %s --shard-updates=threshold=15 | FileCheck %s
// RUN: polyrank-opt %s --shard-updates=threshold=15 --plan-reshards --bucket-collectives --check-partition --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// RUN: polyrank-opt %s --shard-updates=threshold=15 --plan-reshards --bucket-collectives --check-partition --localize --evaluate=ranks | FileCheck %s --check-prefix=VALUE
// Updates that ask for more than an element: what is reduced or multiplied is
// laid out again for the fewest bytes.

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!gram = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!rows = tensor<8x1xf32, #sharding.layout<#mesh, [{}, {}]>>
!row = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
!scalar = tensor<f32, #sharding.layout<#mesh, []>>

// x' = x + x (x^T x), twice, of the momentum x (Muon): to gather x once moves
// less than to split both products. What is computed between them is computed
// whole, and of the last only a part.
// VALUE: @products
// CHECK-LABEL: func.func @products
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.state<"momentum" of @w>
// CHECK: %[[X:.*]] = graph.add %[[M]], %{{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[WHOLE:.*]] = sharding.reshard %[[X]] {{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK-NOT: sharding.reshard
// CHECK: graph.matmul %[[WHOLE]], %[[WHOLE]]
// CHECK: graph.matmul
// CHECK: graph.add %[[WHOLE]]
// CHECK: graph.matmul
// CHECK: %[[PART:.*]] = graph.sub {{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: %[[NEW:.*]] = sharding.reshard %[[PART]]
// CHECK: return %[[NEW]], %[[X]]
func.func @products(%w: !w {graph.role = #graph.parameter<@w>}, %m: !w {graph.role = #graph.state<"momentum" of @w>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p {why = #sharding.reason<constraint = "batch">} : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %x = graph.add %m, %g : !w
  %a1 = graph.matmul %x, %x batch [] x [] contract [0] x [0] : (!w, !w) -> !gram
  %b1 = graph.matmul %x, %a1 batch [] x [] contract [1] x [0] : (!w, !gram) -> !w
  %x1 = graph.add %x, %b1 : !w
  %a2 = graph.matmul %x1, %x1 batch [] x [] contract [0] x [0] : (!w, !w) -> !gram
  %b2 = graph.matmul %x1, %a2 batch [] x [] contract [1] x [0] : (!w, !gram) -> !w
  %x2 = graph.add %x1, %b2 : !w
  %new = graph.sub %w, %x2 : !w
  return %new, %x : !w, !w
}

// State of another shape is no part of the parameter: it stays whole, and each
// device spreads what it needs (Adafactor).
// VALUE: @rows
// CHECK-LABEL: func.func @rows
// CHECK-SAME: tensor<8x1xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.role = #graph.state<"row_var" of @w>
// CHECK: graph.broadcast %{{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK-NOT: tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: graph.sub {{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
func.func @rows(%w: !w {graph.role = #graph.parameter<@w>}, %s: !rows {graph.role = #graph.state<"row_var" of @w>}, %dw: !w {graph.role = #graph.input<"dw">}) -> (!w {graph.role = #graph.next<0>}, !rows {graph.role = #graph.next<1>}) {
  %p = sharding.to_partial %dw : (!w) -> !dw
  %r = sharding.reshard %p {why = #sharding.reason<constraint = "batch">} : (!dw) -> !w
  %g = graph.gradient %r of @w : !w
  %old = graph.reshape %s : (!rows) -> !row
  %sum = graph.reduce sum %g over [1] : (!w) -> !row
  %next = graph.add %old, %sum : !row
  %state = graph.reshape %next : (!row) -> !rows
  %spread = graph.broadcast %next {dims = array<i64: 0>} : (!row) -> !w
  %step = graph.mul %g, %spread : !w
  %new = graph.sub %w, %step : !w
  return %new, %state : !w, !rows
}

// The norm of the parameter is one of its parts, though no gradient is in it
// (LAMB); 28 elements are a row.
!odd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dodd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// VALUE: @norm
// CHECK-LABEL: func.func @norm
// CHECK: graph.mul {{.*}} : tensor<28xf32, #sharding.layout<#mesh, [{"data"}]>>
// CHECK: graph.reduce sum %{{.*}} over [0] {{.*}}partial = sum {"data"}
func.func @norm(%w: !odd {graph.role = #graph.parameter<@w>}, %dw: !odd {graph.role = #graph.input<"dw">}) -> (!odd {graph.role = #graph.next<0>}) {
  %p = sharding.to_partial %dw : (!odd) -> !dodd
  %r = sharding.reshard %p : (!dodd) -> !odd
  %g = graph.gradient %r of @w : !odd
  %square = graph.mul %w, %w : !odd
  %sum = graph.reduce sum %square over [0, 1] : (!odd) -> !scalar
  %max = graph.reduce max %g over [0, 1] : (!odd) -> !scalar
  %size = graph.div %sum, %max : !scalar
  %spread = graph.broadcast %size {dims = array<i64>} : (!scalar) -> !odd
  %step = graph.mul %g, %spread : !odd
  %new = graph.sub %w, %step : !odd
  return %new : !odd
}
