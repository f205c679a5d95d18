// RUN: polyrank-opt %s --print-why | FileCheck %s
// Each collective with its reason, alike layers as one, and the products that
// no constraint splits.

#mesh = #sharding.mesh<["tensor"=2]>
!whole = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!rows = tensor<4x4xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
!columns = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!sum = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>

// CHECK:      @step
// CHECK-NEXT: 2 x all_reduce over tensor, 64 bytes each
// CHECK-NEXT: matmul 'h.[0-1].up' gives [-,-] partial sum over tensor
// CHECK-NEXT: add 'h.[0-1].sum' takes [-,-]
// CHECK-NEXT: because of up=[tensor,-]
// CHECK-NEXT: matmul 'head' is replicated over tensor: no constraint reaches it (32% of the step's FLOPs)
// CHECK-NEXT: #mesh
func.func @step(%x: !columns, %w: !rows, %v: !whole) -> !whole {
  %p = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!columns, !rows) -> !sum loc("h.0.up")
  %y = sharding.all_reduce %p {why = #sharding.reason<producer = "matmul 'h.0.up'", from = "[-,-] partial sum over tensor", user = "add 'h.0.sum'", to = "[-,-]", constraint = "up=[tensor,-]">} : (!sum) -> !whole
  %q = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (!columns, !rows) -> !sum loc("h.1.up")
  %z = sharding.all_reduce %q {why = #sharding.reason<producer = "matmul 'h.1.up'", from = "[-,-] partial sum over tensor", user = "add 'h.1.sum'", to = "[-,-]", constraint = "up=[tensor,-]">} : (!sum) -> !whole
  %a = graph.add %y, %z : !whole
  %h = graph.matmul %a, %v batch [] x [] contract [1] x [0] : (!whole, !whole) -> !whole loc("head")
  return %h : !whole
}
