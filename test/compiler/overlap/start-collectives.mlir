// RUN: polyrank-opt %s --start-collectives | FileCheck %s
// RUN: polyrank-opt %s --start-collectives=prefetch=0 | FileCheck %s --check-prefix=NONE
// RUN: polyrank-opt %s --start-collectives=report=1 -o %t 2>&1 | FileCheck %s --check-prefix=REPORT

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>

module attributes {rank.machine = #rank.machine<links = [<"data", latency = 10.0, bandwidth = 1.0>, <"tensor", latency = 10.0, bandwidth = 1.0>]>} {
rank.kernel @move(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<4096xf32>
}
rank.kernel @add(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.add %x, %y : tensor<4096xf32>
  rank.return %0 : tensor<4096xf32>
}

// A reduction starts where its operand is there, and ends where its result is
// used. Of that a view is no use.
// CHECK-LABEL: func.func @reduction
// CHECK: %[[A:.*]] = rank.launch @move
// CHECK-NEXT: %[[P:.*]] = rank.all_reduce sum %[[A]] {{.*}}graph.phase = #graph.phase<backward>{{.*}} -> !rank.pending<tensor<4096xf32>>
// CHECK-NEXT: %[[B:.*]] = rank.launch @move
// CHECK-NEXT: %[[Y:.*]] = rank.wait %[[P]] of %[[A]] {graph.phase = #graph.phase<backward>}
// CHECK-NEXT: %[[V:.*]] = rank.view %[[Y]]
// CHECK-NEXT: rank.launch @add(%[[V]], %[[B]])
// REPORT: a step takes 0.05 ms by the model, at least 0.04, gap {{.*}} %, and 0.05 with nothing overlapped: 1 of 1 collectives are started early
func.func @reduction(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %b = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 {graph.phase = #graph.phase<backward>} : (tensor<4096xf32>) -> tensor<4096xf32>
  %v = rank.view %y offset 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @add(%v, %b) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %z : tensor<4096xf32>
}

// With nothing to do in between it stays as it is.
// CHECK-LABEL: func.func @nothing_between
// CHECK-NOT: rank.wait
// CHECK: return
func.func @nothing_between(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @move(%y) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %z : tensor<4096xf32>
}

// Gathers start while the one before is in use, and no earlier, however long
// they take.
// CHECK-LABEL: func.func @gathers
// CHECK: %[[A:.*]] = rank.all_gather {{.*}} id 0 {{.*}} -> tensor<4096xf32>
// CHECK-NEXT: %[[P:.*]] = rank.all_gather {{.*}} id 1 {{.*}} -> !rank.pending
// CHECK-NEXT: %[[M:.*]] = rank.launch @move(%[[A]])
// CHECK-NEXT: %[[N:.*]] = rank.launch @move(%[[M]])
// CHECK-NEXT: %[[B:.*]] = rank.wait %[[P]]
// CHECK-NEXT: %[[Q:.*]] = rank.all_gather {{.*}} id 2 {{.*}} -> !rank.pending
// CHECK-NEXT: %[[O:.*]] = rank.launch @add(%[[N]], %[[B]])
// CHECK-NEXT: %[[C:.*]] = rank.wait %[[Q]]
// CHECK-NEXT: rank.launch @add(%[[O]], %[[C]])
// NONE-LABEL: func.func @gathers
// NONE-NOT: rank.wait
// NONE: return
func.func @gathers(%x: tensor<2048xf32>, %y: tensor<2048xf32>, %z: tensor<2048xf32>) -> tensor<4096xf32> {
  %a = rank.all_gather %x dims [0] over <#mesh, {"data"}> id 0 : (tensor<2048xf32>) -> tensor<4096xf32>
  %m = rank.launch @move(%a) : (tensor<4096xf32>) -> tensor<4096xf32>
  %n = rank.launch @move(%m) : (tensor<4096xf32>) -> tensor<4096xf32>
  %b = rank.all_gather %y dims [0] over <#mesh, {"data"}> id 1 : (tensor<2048xf32>) -> tensor<4096xf32>
  %o = rank.launch @add(%n, %b) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %c = rank.all_gather %z dims [0] over <#mesh, {"data"}> id 2 : (tensor<2048xf32>) -> tensor<4096xf32>
  %p = rank.launch @add(%o, %c) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %p : tensor<4096xf32>
}

// A reduce_scatter keeps a buffer larger than its result: it is waited for as
// soon as it should have ended, long before its use.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[P:.*]] = rank.reduce_scatter {{.*}} -> !rank.pending<tensor<2048xf32>>
// CHECK-COUNT-5: rank.launch @move
// CHECK-NEXT: rank.wait %[[P]]
// CHECK-COUNT-5: rank.launch @move
// CHECK-NEXT: return
func.func @scattered(%x: tensor<4096xf32>) -> (tensor<2048xf32>, tensor<4096xf32>) {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.reduce_scatter sum %a dims [0] over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<2048xf32>
  %1 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = rank.launch @move(%1) : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = rank.launch @move(%2) : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = rank.launch @move(%3) : (tensor<4096xf32>) -> tensor<4096xf32>
  %5 = rank.launch @move(%4) : (tensor<4096xf32>) -> tensor<4096xf32>
  %6 = rank.launch @move(%5) : (tensor<4096xf32>) -> tensor<4096xf32>
  %7 = rank.launch @move(%6) : (tensor<4096xf32>) -> tensor<4096xf32>
  %8 = rank.launch @move(%7) : (tensor<4096xf32>) -> tensor<4096xf32>
  %9 = rank.launch @move(%8) : (tensor<4096xf32>) -> tensor<4096xf32>
  %10 = rank.launch @move(%9) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %y, %10 : tensor<2048xf32>, tensor<4096xf32>
}

// What is started before the microbatches ends before them, and what is started
// in one of them ends in it.
// CHECK-LABEL: func.func @segments
// CHECK: rank.all_reduce {{.*}} id 0 {{.*}} -> !rank.pending
// CHECK-NEXT: rank.launch @move
// CHECK-NEXT: rank.wait
// CHECK-NEXT: rank.microbatches
// CHECK: rank.all_reduce {{.*}} id 1 {{.*}} -> !rank.pending
// CHECK-NEXT: rank.launch @move
// CHECK-NEXT: rank.wait
// CHECK-NEXT: rank.yield
func.func @segments(%x: tensor<2x4096xf32>, %w: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
  %a = rank.launch @move(%w) : (tensor<4096xf32>) -> tensor<4096xf32>
  %b = rank.launch @move(%w) : (tensor<4096xf32>) -> tensor<4096xf32>
  %c = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %0:2 = rank.microbatches [0:0] of(%x) carry() {
  rank.segment "first" takes [] gives [0, 1] {
  ^bb0(%xi: tensor<4096xf32>):
    %d = rank.launch @move(%xi) : (tensor<4096xf32>) -> tensor<4096xf32>
    %e = rank.launch @move(%xi) : (tensor<4096xf32>) -> tensor<4096xf32>
    %f = rank.all_reduce sum %d over <#mesh, {"data"}> id 1 : (tensor<4096xf32>) -> tensor<4096xf32>
    rank.yield %e, %f : tensor<4096xf32>, tensor<4096xf32>
  }
  } : (tensor<2x4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>)
  %g = rank.launch @add(%0#0, %b) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %g, %0#1, %c : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
}

// Adding a gradient to the sum of those before is put off until it is there: it
// needs nothing else that would have to be kept.
// CHECK-LABEL: func.func @put_off
// CHECK-SAME: %[[X:.*]]: tensor<4096xf32>, %[[SUM:.*]]: tensor<2048xf32>)
// CHECK: %[[P:.*]] = rank.reduce_scatter {{.*}} -> !rank.pending<tensor<2048xf32>>
// CHECK-COUNT-5: rank.launch @move
// CHECK-NEXT: %[[Y:.*]] = rank.wait %[[P]]
// CHECK-NEXT: rank.launch @add_half(%[[SUM]], %[[Y]])
// CHECK-NEXT: rank.launch @move
// CHECK-NEXT: return
rank.kernel @add_half(%x: tensor<2048xf32>, %y: tensor<2048xf32>) -> tensor<2048xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.add %x, %y : tensor<2048xf32>
  rank.return %0 : tensor<2048xf32>
}
func.func @put_off(%x: tensor<4096xf32>, %sum: tensor<2048xf32>) -> (tensor<2048xf32>, tensor<4096xf32>) {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.reduce_scatter sum %a dims [0] over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<2048xf32>
  %s = rank.launch @add_half(%sum, %y) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %1 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = rank.launch @move(%1) : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = rank.launch @move(%2) : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = rank.launch @move(%3) : (tensor<4096xf32>) -> tensor<4096xf32>
  %5 = rank.launch @move(%4) : (tensor<4096xf32>) -> tensor<4096xf32>
  %6 = rank.launch @move(%5) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %s, %6 : tensor<2048xf32>, tensor<4096xf32>
}

// What reads something else of the block would keep that: it stays, and so does
// what the next command needs.
// CHECK-LABEL: func.func @not_put_off
// CHECK: rank.reduce_scatter
// CHECK-NEXT: rank.launch @add_half
// CHECK: rank.reduce_scatter
// CHECK-NEXT: rank.launch @add_half
// CHECK-NEXT: rank.launch @add_half
func.func @not_put_off(%x: tensor<4096xf32>, %half: tensor<2048xf32>) -> (tensor<2048xf32>, tensor<2048xf32>, tensor<4096xf32>) {
  %h = rank.launch @add_half(%half, %half) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %y = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<2048xf32>
  %s = rank.launch @add_half(%h, %y) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %m = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.reduce_scatter sum %m dims [0] over <#mesh, {"data"}> id 1 : (tensor<4096xf32>) -> tensor<2048xf32>
  %t = rank.launch @add_half(%half, %z) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %u = rank.launch @add_half(%t, %s) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %n = rank.launch @move(%m) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %s, %u, %n : tensor<2048xf32>, tensor<2048xf32>, tensor<4096xf32>
}

// Of one group no more than eight are in flight.
// CHECK-LABEL: func.func @many
// CHECK-COUNT-8: rank.all_reduce {{.*}} -> !rank.pending
// CHECK-NEXT: rank.wait
// CHECK-NEXT: rank.all_reduce {{.*}} id 8 {{.*}} -> !rank.pending
// CHECK-NEXT: rank.all_reduce {{.*}}"tensor"{{.*}} id 9 {{.*}} -> !rank.pending
func.func @many(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = rank.all_reduce sum %x over <#mesh, {"data"}> id 2 : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = rank.all_reduce sum %x over <#mesh, {"data"}> id 3 : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = rank.all_reduce sum %x over <#mesh, {"data"}> id 4 : (tensor<4096xf32>) -> tensor<4096xf32>
  %5 = rank.all_reduce sum %x over <#mesh, {"data"}> id 5 : (tensor<4096xf32>) -> tensor<4096xf32>
  %6 = rank.all_reduce sum %x over <#mesh, {"data"}> id 6 : (tensor<4096xf32>) -> tensor<4096xf32>
  %7 = rank.all_reduce sum %x over <#mesh, {"data"}> id 7 : (tensor<4096xf32>) -> tensor<4096xf32>
  %8 = rank.all_reduce sum %x over <#mesh, {"data"}> id 8 : (tensor<4096xf32>) -> tensor<4096xf32>
  %9 = rank.all_reduce sum %x over <#mesh, {"tensor"}> id 9 : (tensor<4096xf32>) -> tensor<4096xf32>
  %10 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
}
}
