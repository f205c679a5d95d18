// RUN: polyrank-opt %s --bucket-collectives | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --bucket-collectives=mb=0.0005 | FileCheck %s --check-prefix=MORE
// RUN: polyrank-opt %s --bucket-collectives --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Gradients are reduced in buckets, in the order in which the backward makes
// them: the last layer's first. What the backward reads itself, other axes and
// other kinds stay apart.

#mesh = #shard.mesh<["data"=2, "tensor"=2]>
!x = tensor<4x8xf32, #shard.layout<#mesh, [{"data"}, {}]>>
!w = tensor<8x8xf32, #shard.layout<#mesh, [{}, {}]>>
!dw = tensor<8x8xf32, #shard.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!scalar = tensor<f32, #shard.layout<#mesh, []>>

// VALUE: @step distributed
// ONE-LABEL: func.func @step
// ONE-COUNT-3: graph.matmul
// ONE: %{{.*}}:3 = shard.all_reduce %[[D3:.*]], %[[D2:.*]], %[[D1:.*]] {why = {members = [{user = "update 3"}, {user = "update 2"}, {user = "update 1"}]
// ONE-NOT: = shard.
// ONE: return

// Two of 256 bytes fit into 524.
// MORE-LABEL: func.func @step
// MORE: %{{.*}}:2 = shard.all_reduce {{.*}} {why = {members = [{user = "update 3"}, {user = "update 2"}]
// MORE: shard.all_reduce {{.*}} {why = {user = "update 1"}}
// MORE: return
func.func @step(%w1: !w {graph.symbol = @w1}, %w2: !w {graph.symbol = @w2}, %w3: !w {graph.symbol = @w3}, %x: !x {graph.input = "x"}) -> (!w, !w, !w) {
  %seed = graph.seed 1.0 : !scalar
  %d3 = graph.broadcast %seed {dims = array<i64>, graph.origin = "loss"} : (!scalar) -> !x
  %g3 = graph.matmul %x, %d3 batch [] x [] contract [0] x [0] {graph.origin = "layer 3"} : (!x, !x) -> !dw
  %r3 = shard.all_reduce %g3 {why = {user = "update 3"}} : (!dw) -> !w
  %n3 = graph.sub %w3, %r3 : (!w, !w) -> !w
  %d2 = graph.add %d3, %x {graph.origin = "layer 3"} : (!x, !x) -> !x
  %g2 = graph.matmul %x, %d2 batch [] x [] contract [0] x [0] {graph.origin = "layer 2"} : (!x, !x) -> !dw
  %r2 = shard.all_reduce %g2 {why = {user = "update 2"}} : (!dw) -> !w
  %n2 = graph.sub %w2, %r2 : (!w, !w) -> !w
  %d1 = graph.add %d2, %x {graph.origin = "layer 2"} : (!x, !x) -> !x
  %g1 = graph.matmul %x, %d1 batch [] x [] contract [0] x [0] {graph.origin = "layer 1"} : (!x, !x) -> !dw
  %r1 = shard.all_reduce %g1 {why = {user = "update 1"}} : (!dw) -> !w
  %n1 = graph.sub %w1, %r1 : (!w, !w) -> !w
  return %n1, %n2, %n3 : !w, !w, !w
}

// A reduction that the backward reads is not delayed, and one that another
// waits for is not in its bucket.
!part = tensor<4x8xf32, #shard.layout<#mesh, [{"data"}, {}], partial = sum {"tensor"}>>
// ONE-LABEL: func.func @chain
// ONE-COUNT-2: = shard.all_reduce %{{[a-z0-9_]*}} :
func.func @chain(%x: !x) -> (!x, !x) {
  %seed = graph.seed 1.0 : !scalar
  %d = graph.broadcast %seed {dims = array<i64>, graph.origin = "loss"} : (!scalar) -> !x
  %p = shard.to_partial %d : (!x) -> !part
  %r = shard.all_reduce %p : (!part) -> !x
  %e = graph.add %r, %x {graph.origin = "next"} : (!x, !x) -> !x
  %q = shard.to_partial %e : (!x) -> !part
  %s = shard.all_reduce %q : (!part) -> !x
  return %r, %s : !x, !x
}

// Gathers of new parameters are buckets too; one that the backward reads is not.
!half = tensor<8x8xf32, #shard.layout<#mesh, [{"data"}, {}]>>
!row = tensor<64xf32, #shard.layout<#mesh, [{}]>>
!halfRow = tensor<64xf32, #shard.layout<#mesh, [{"data"}]>>
// ONE-LABEL: func.func @gathers
// ONE: shard.all_gather %{{.*}} : (tensor<8x8
// ONE: %{{.*}}:2 = shard.all_gather %{{.*}}, %{{.*}} {why = {members = [{user = "w1"}, {user = "w2"}], user = "w1; w2", value = "new values of 2 tensors"}}
// ONE-NOT: = shard.
// ONE: return
func.func @gathers(%w1: !w {graph.symbol = @w1}, %w2: !row {graph.symbol = @w2}, %w3: !half {graph.symbol = @w3}) -> (!w, !row, !half) {
  %g3 = shard.all_gather %w3 : (!half) -> !w
  %h1 = shard.slice %w1 : (!w) -> !half
  %n1 = graph.add %h1, %w3 : (!half, !half) -> !half
  %m1 = graph.mul %g3, %w1 : (!w, !w) -> !w
  %s1 = shard.slice %m1 : (!w) -> !half
  %o1 = graph.add %n1, %s1 : (!half, !half) -> !half
  %r1 = shard.all_gather %o1 {why = {user = "w1"}} : (!half) -> !w
  %h2 = shard.slice %w2 : (!row) -> !halfRow
  %r2 = shard.all_gather %h2 {why = {user = "w2"}} : (!halfRow) -> !row
  return %r1, %r2, %w3 : !w, !row, !half
}
