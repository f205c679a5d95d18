// RUN: polyrank-opt %s --bucket-collectives=mb=auto | FileCheck %s --check-prefix=EARLY
// RUN: sed 's/latency = 1.0/latency = 500.0/' %s | polyrank-opt --bucket-collectives=mb=auto | FileCheck %s --check-prefix=ONE
// RUN: sed 's/latency = 1.0/latency = 0.0/' %s | polyrank-opt --bucket-collectives=mb=auto | FileCheck %s --check-prefix=APART
// RUN: polyrank-opt %s --bucket-collectives=mb=auto --evaluate=distributed --outputs=%t.npz
// RUN: polyrank-opt %s --bucket-collectives --evaluate=distributed --expect=%t.npz
// The clock chooses buckets. On a device of 1 MB/s a product of the backward
// moves 384 bytes in 384 us, and a sum of activations takes at least 128. A link
// of 1 us and 1 MB/s reduces a gradient of 256 bytes in 258 us, while the next
// one is computed, so only those of the last two, which are ready together, share
// a bucket.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!x = tensor<4x8xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!w = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!scalar = tensor<f32, #sharding.layout<#mesh, []>>

// EARLY-LABEL: func.func @step
// EARLY: sharding.all_reduce {{.*}} {why = #sharding.reason<user = "update 3">}
// EARLY: %{{.*}}:2 = sharding.all_reduce {{.*}}members = [<user = "update 2">, <user = "update 1">]
// EARLY-NOT: = sharding.
// EARLY: return

// A link that waits long reduces all at once.
// ONE-LABEL: func.func @step
// ONE-COUNT-2: graph.matmul
// ONE: %{{.*}}:3 = sharding.all_reduce {{.*}}members = [<user = "update 3">, <user = "update 2">, <user = "update 1">]
// ONE-NOT: = sharding.
// ONE: return

// One that never waits loses nothing, but two that are ready together still
// share a bucket.
// APART-LABEL: func.func @step
// APART: sharding.all_reduce {{.*}} {why = #sharding.reason<user = "update 3">}
// APART: %{{.*}}:2 = sharding.all_reduce {{.*}}members = [<user = "update 2">, <user = "update 1">]
module attributes {rank.machine = #rank.machine<links = [<"data", latency = 1.0, bandwidth = 0.001>], rates = [<f32, 0.001>], bandwidth = 0.001>} {
func.func @step(%w1: !w {graph.role = #graph.parameter<@w1>}, %w2: !w {graph.role = #graph.parameter<@w2>}, %w3: !w {graph.role = #graph.parameter<@w3>}, %x: !x {graph.role = #graph.input<"x">}) -> (!w {graph.role = #graph.next<0>}, !w {graph.role = #graph.next<1>}, !w {graph.role = #graph.next<2>}) {
  %seed = graph.seed 1.0 : !scalar
  %d3 = graph.broadcast %seed {dims = array<i64>} : (!scalar) -> !x
  %g3 = graph.matmul %x, %d3 batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
  %r3 = sharding.all_reduce %g3 {why = #sharding.reason<user = "update 3">} : (!dw) -> !w
  %d2 = graph.add %d3, %x : !x
  %g2 = graph.matmul %x, %d2 batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
  %r2 = sharding.all_reduce %g2 {why = #sharding.reason<user = "update 2">} : (!dw) -> !w
  %r1 = sharding.all_reduce %g2 {why = #sharding.reason<user = "update 1">} : (!dw) -> !w
  %n3 = graph.sub %w3, %r3 {graph.phase = #graph.phase<update>} : !w
  %n2 = graph.sub %w2, %r2 {graph.phase = #graph.phase<update>} : !w
  %n1 = graph.sub %w1, %r1 {graph.phase = #graph.phase<update>} : !w
  return %n1, %n2, %n3 : !w, !w, !w
}
}
