// RUN: polyrank-opt %s --bucket-collectives | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --bucket-collectives=mb=0.0005 | FileCheck %s --check-prefix=MORE
// RUN: polyrank-opt %s --bucket-collectives=mb=all-gather=0.0005,all-reduce=0.0005,reduce-scatter=0.0005 | FileCheck %s --check-prefix=MORE
// RUN: polyrank-opt %s --bucket-collectives=mb=all-reduce=0 | FileCheck %s --check-prefix=APART
// RUN: polyrank-opt %s --bucket-collectives=mb=reduce-scatter=0 | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --bucket-collectives=mb=1,first=0.0003 | FileCheck %s --check-prefix=EARLY
// RUN: polyrank-opt %s --bucket-collectives --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Gradients are reduced in buckets, in the order in which the backward makes
// them: the last layer's first. What the backward reads itself, other axes and
// other kinds stay apart.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!x = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!w = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!scalar = tensor<f32, #sharding.layout<#mesh, []>>

// VALUE: @step distributed
// ONE-LABEL: func.func @step
// ONE-COUNT-3: graph.matmul
// ONE: %{{.*}}:3 = sharding.all_reduce %[[D3:.*]], %[[D2:.*]], %[[D1:.*]] {why = #sharding.reason<value = "gradients of 3 tensors", user = "update 3; update 2; update 1", members = [<user = "update 3">, <user = "update 2">, <user = "update 1">]>}
// ONE-NOT: = sharding.
// ONE: return

// APART-LABEL: func.func @step
// APART-COUNT-3: = sharding.all_reduce %{{[a-z0-9_]*}} {why
// APART: return

// One of 256 bytes fits into the first bucket, two and more into others.
// EARLY-LABEL: func.func @step
// EARLY: = sharding.all_reduce {{.*}} {why = #sharding.reason<user = "update 3">}
// EARLY-COUNT-2: graph.matmul
// EARLY: %{{.*}}:2 = sharding.all_reduce {{.*}} {why = #sharding.reason<value = "gradients of 2 tensors", user = "update 2; update 1", members = [<user = "update 2">, <user = "update 1">]>}
// EARLY: return

// Two of 256 bytes fit into 524.
// MORE-LABEL: func.func @step
// MORE: %{{.*}}:2 = sharding.all_reduce {{.*}} {why = #sharding.reason<value = "gradients of 2 tensors", user = "update 3; update 2", members = [<user = "update 3">, <user = "update 2">]>}
// MORE: sharding.all_reduce {{.*}} {why = #sharding.reason<user = "update 1">}
// MORE: return
func.func @step(%w1: !w {graph.role = #graph.parameter<@w1>}, %w2: !w {graph.role = #graph.parameter<@w2>}, %w3: !w {graph.role = #graph.parameter<@w3>}, %x: !x {graph.role = #graph.input<"x">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !w {graph.role = #graph.next<2>}) {
  %seed = graph.seed 1.0 : !scalar
  %d3 = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !x
  %g3 = graph.matmul %x, %d3 batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
  %r3 = sharding.all_reduce %g3 {why = #sharding.reason<user = "update 3">} : (!dw) -> !w
  %n3 = graph.sub %w3, %r3 {graph.phase = #graph.phase<update>} : !w
  %d2 = graph.add %d3, %x : !x
  %g2 = graph.matmul %x, %d2 batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
  %r2 = sharding.all_reduce %g2 {why = #sharding.reason<user = "update 2">} : (!dw) -> !w
  %n2 = graph.sub %w2, %r2 {graph.phase = #graph.phase<update>} : !w
  %d1 = graph.add %d2, %x : !x
  %g1 = graph.matmul %x, %d1 batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
  %r1 = sharding.all_reduce %g1 {why = #sharding.reason<user = "update 1">} : (!dw) -> !w
  %n1 = graph.sub %w1, %r1 {graph.phase = #graph.phase<update>} : !w
  return %n1, %n2, %n3 : !w, !w, !w
}

// A reduction that the backward reads is not delayed by waiting for another.
!part = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>>
// ONE-LABEL: func.func @read_by_backward
// ONE-COUNT-2: = sharding.all_reduce %{{[a-z0-9_]*}} :
// ONE: return
func.func @read_by_backward(%x: !x) -> (!x, !x) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !x
  %p = sharding.to_partial %d : (!x) -> !part
  %r = sharding.all_reduce %p : (!part) -> !x
  %s = sharding.all_reduce %p : (!part) -> !x
  %n = graph.neg %r : !x
  %e = graph.add %n, %x : !x
  return %e, %s : !x, !x
}

// What only moves a gradient on its way to the update is no reader.
// ONE-LABEL: func.func @on_the_way
// ONE: %[[SUMS:.*]]:2 = sharding.all_reduce
// ONE-DAG: sharding.slice %[[SUMS]]#0
// ONE-DAG: sharding.slice %[[SUMS]]#1
// ONE: return
!quarter = tensor<4x8xf32, #sharding.layout<#mesh, [{"data", "tensor"}, {}]>>
func.func @on_the_way(%x: !x) -> (!quarter, !quarter) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !x
  %p = sharding.to_partial %d : (!x) -> !part
  %r = sharding.all_reduce %p : (!part) -> !x
  %s = sharding.all_reduce %p : (!part) -> !x
  %m = sharding.slice %r : (!x) -> !quarter
  %n = sharding.slice %s : (!x) -> !quarter
  %u = graph.neg %m {graph.phase = #graph.phase<update>} : !quarter
  %v = graph.neg %n {graph.phase = #graph.phase<update>} : !quarter
  return %u, %v : !quarter, !quarter
}

// One that another waits for is not in its bucket.
// ONE-LABEL: func.func @waits
// ONE: %[[FIRST:.*]] = sharding.all_reduce %{{[a-z0-9_]*}} :
// ONE: graph.add %[[FIRST]]
// ONE: sharding.all_reduce %{{[a-z0-9_]*}} :
// ONE: return
func.func @waits(%x: !x) -> (!x, !x) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !x
  %p = sharding.to_partial %d : (!x) -> !part
  %r = sharding.all_reduce %p : (!part) -> !x
  %e = graph.add %r, %x {graph.phase = #graph.phase<update>} : !x
  %q = sharding.to_partial %e : (!x) -> !part
  %s = sharding.all_reduce %q : (!part) -> !x
  return %r, %s : !x, !x
}

// Two of the forward are no gradients.
// ONE-LABEL: func.func @forward
// ONE-COUNT-2: = sharding.all_reduce %{{[a-z0-9_]*}} :
// ONE: return
func.func @forward(%x: !part, %y: !part) -> (!x, !x) {
  %r = sharding.all_reduce %x : (!part) -> !x
  %s = sharding.all_reduce %y : (!part) -> !x
  return %r, %s : !x, !x
}

// Two that differ in their axes, their kind, their elements, or in what each
// device gets.
!whole = tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!data = tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!tensor = tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
!max = tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}], partial = max {"data"}>>
!double = tensor<4x8xf64, #sharding.layout<#mesh, [{}, {}]>>
!doubleData = tensor<4x8xf64, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
// ONE-LABEL: func.func @unlike
// ONE-COUNT-4: = sharding.all_reduce %{{[a-z0-9_]*}} :
// ONE: = sharding.reduce_scatter %{{[a-z0-9_]*}} :
// ONE: return
func.func @unlike() -> (!whole, !whole, !whole, !double, !x) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !whole
  %c = graph.convert %d : (!whole) -> !double
  %p0 = sharding.to_partial %d : (!whole) -> !data
  %p1 = sharding.to_partial %d : (!whole) -> !tensor
  %p2 = sharding.to_partial %d : (!whole) -> !max
  %p3 = sharding.to_partial %c : (!double) -> !doubleData
  %r0 = sharding.all_reduce %p0 : (!data) -> !whole
  %r1 = sharding.all_reduce %p1 : (!tensor) -> !whole
  %r2 = sharding.all_reduce %p2 : (!max) -> !whole
  %r3 = sharding.all_reduce %p3 : (!doubleData) -> !double
  %r4 = sharding.reduce_scatter %p0 : (!data) -> !x
  return %r0, %r1, %r2, %r3, %r4 : !whole, !whole, !whole, !double, !x
}

// Gathers of new parameters are buckets too; one that the backward reads is not.
!half = tensor<8x8xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!row = tensor<64xf32, #sharding.layout<#mesh, [{}]>>
!halfRow = tensor<64xf32, #sharding.layout<#mesh, [{"data"}]>>
// ONE-LABEL: func.func @gathers
// ONE: sharding.all_gather %{{.*}} : (tensor<8x8
// ONE: %{{.*}}:2 = sharding.all_gather %{{.*}}, %{{.*}} {why = #sharding.reason<value = "new values of 2 tensors", user = "w1; w2", members = [<user = "w1">, <user = "w2">]>}
// ONE-NOT: = sharding.
// ONE: return
func.func @gathers(%w1: !w {graph.role = #graph.parameter<@w1>}, %w2: !row {graph.role = #graph.parameter<@w2>}, %w3: !half {graph.role = #graph.parameter<@w3>}) -> (!w {graph.role = #graph.next<0>}, !row {graph.role = #graph.next<1>}, !half {graph.role = #graph.next<2>}) {
  %g3 = sharding.all_gather %w3 : (!half) -> !w
  %h1 = sharding.slice %w1 : (!w) -> !half
  %n1 = graph.add %h1, %w3 : !half
  %m1 = graph.mul %g3, %w1 : !w
  %s1 = sharding.slice %m1 : (!w) -> !half
  %o1 = graph.add %n1, %s1 : !half
  %r1 = sharding.all_gather %o1 {why = #sharding.reason<user = "w1">} : (!half) -> !w
  %h2 = sharding.slice %w2 : (!row) -> !halfRow
  %r2 = sharding.all_gather %h2 {why = #sharding.reason<user = "w2">} : (!halfRow) -> !row
  return %r1, %r2, %w3 : !w, !row, !half
}

// What a device holds before a scatter and after a gather counts: two of 256
// bytes each.
// ONE-LABEL: func.func @limit
// MORE-LABEL: func.func @limit
// MORE: %{{.*}}:2 = sharding.reduce_scatter
// MORE: = sharding.reduce_scatter %{{[a-z0-9_]*}} :
// MORE: %{{.*}}:2 = sharding.all_gather
// MORE: = sharding.all_gather %{{[a-z0-9_]*}} :
// MORE: return
func.func @limit(%w1: !w {graph.role = #graph.parameter<@w1>}, %w2: !w {graph.role = #graph.parameter<@w2>}, %w3: !w {graph.role = #graph.parameter<@w3>}, %x: !half) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !w {graph.role = #graph.next<2>}) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !w
  %p = sharding.to_partial %d : (!w) -> !dw
  %r1 = sharding.reduce_scatter %p : (!dw) -> !half
  %r2 = sharding.reduce_scatter %p : (!dw) -> !half
  %r3 = sharding.reduce_scatter %p : (!dw) -> !half
  %h1 = graph.add %x, %r1 {graph.phase = #graph.phase<update>} : !half
  %h2 = graph.add %x, %r2 {graph.phase = #graph.phase<update>} : !half
  %h3 = graph.add %x, %r3 {graph.phase = #graph.phase<update>} : !half
  %n1 = sharding.all_gather %h1 : (!half) -> !w
  %n2 = sharding.all_gather %h2 : (!half) -> !w
  %n3 = sharding.all_gather %h3 : (!half) -> !w
  return %n1, %n2, %n3 : !w, !w, !w
}
