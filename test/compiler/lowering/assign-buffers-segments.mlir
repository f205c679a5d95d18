// RUN: polyrank-opt %s --assign-buffers --check-buffers -split-input-file | FileCheck %s

rank.kernel @move(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %x : tensor<16xf32>
}
rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0, 1>]} {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}

// What is stashed is computed in its slot, and read there; nothing is copied. What
// the forward needs meanwhile lies elsewhere, and so does the sum, which waits
// while others go forward. Behind the loop the last microbatch is in slot 0.
// CHECK-LABEL: func.func @stash
// CHECK: rank.segment "forward"
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[TEMPORARY:[0-9]+]], 64>]}
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[STASH:[0-9]+]], 64 stride 64 slots 2>]}
// CHECK: rank.segment "backward first"
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<private, [[SUM:[0-9]+]], 64>]}
// CHECK: rank.segment "backward"
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[SUM]], 64>]}
// CHECK: {buffers = [#rank.buffer<private, [[SUM]], 64>, #rank.buffer<private, [[STASH]], 128>]}
// CHECK: rank.view {{.*}} offset 0 {buffers = [#rank.buffer<private, [[STASH]], 64>]}
// CHECK-NOT: rank.copy
func.func @stash(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %s:2 = rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1] of(%x) carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%xi: tensor<16xf32>):
    %t = rank.launch @add(%xi, %xi) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %a = rank.launch @add(%t, %xi) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "backward first" takes [1] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %kept: tensor<16xf32>):
    %g = rank.launch @move(%kept) : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %g : tensor<16xf32>
  }
  rank.segment "backward" takes [0, 1] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %sum: tensor<16xf32>, %kept: tensor<16xf32>):
    %g = rank.launch @add(%sum, %kept) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %g : tensor<16xf32>
  }
  } : (tensor<3x16xf32>) -> (tensor<16xf32>, tensor<2x16xf32>)
  %last = rank.view %s#1 offset 0 : (tensor<2x16xf32>) -> tensor<16xf32>
  %y = rank.launch @add(%s#0, %last) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

rank.kernel @move(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %x : tensor<16xf32>
}

// With one slot a stash is a buffer like others.
// CHECK-LABEL: func.func @one_slot
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<private, [[STASH:[0-9]+]], 64>]}
// CHECK: rank.segment "backward"
// CHECK: {buffers = [#rank.buffer<private, [[STASH]], 64>]}
func.func @one_slot(%x: tensor<2x16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %s = rank.microbatches [0:0, 1:0, 0:1] of(%x) carry() stashes [0] {
  rank.segment "forward" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @move(%xi) : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "backward" takes [0] gives [] {
  ^bb0(%xi: tensor<16xf32>, %kept: tensor<16xf32>):
    rank.yield
  }
  } : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %last = rank.view %s offset 0 : (tensor<1x16xf32>) -> tensor<16xf32>
  %y = rank.launch @move(%last) : (tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

rank.kernel @move(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %x : tensor<16xf32>
}
rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0, 1>]} {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
rank.kernel @sum(%x: tensor<2x16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64>]} {
  %0 = graph.reduce sum %x over [0] : (tensor<2x16xf32>) -> tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}

// What a loop in a segment needs from outside is live until the segment has run
// for the last time: not where the backward, which runs between, has its own.
// CHECK-LABEL: func.func @loop_in_a_segment
// CHECK: rank.launch @move(%{{.*}}) {buffers = [#rank.buffer<private, [[W:[0-9]+]], 64>]}
// CHECK: rank.segment "backward"
// CHECK-NOT: #rank.buffer<private, [[W]], 64>
// CHECK: return
func.func @loop_in_a_segment(%p: tensor<16xf32> {graph.role = #graph.input<"p">}, %x: tensor<3x2x16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %w = rank.launch @move(%p) : (tensor<16xf32>) -> tensor<16xf32>
  %s:2 = rank.microbatches [0:0, 0:1, 1:0, 0:2, 1:1] of(%x) carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%xi: tensor<2x16xf32>):
    %a = rank.loop 2 of(%xi) carry() uses(%w) {
    ^bb0(%e: tensor<16xf32>, %u: tensor<16xf32>):
      %b = rank.launch @add(%e, %u) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
      rank.yield %b : tensor<16xf32>
    } : (tensor<2x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
    rank.yield %a : tensor<2x16xf32>
  }
  rank.segment "backward" takes [1] gives [0] {
  ^bb0(%xi: tensor<2x16xf32>, %kept: tensor<2x16xf32>):
    %g = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %h = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %j = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %l = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %m = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %n = rank.launch @sum(%kept) : (tensor<2x16xf32>) -> tensor<16xf32>
    %s0 = rank.launch @add(%g, %h) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %s1 = rank.launch @add(%s0, %j) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %s2 = rank.launch @add(%s1, %l) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %s3 = rank.launch @add(%s2, %m) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %i = rank.launch @add(%s3, %n) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %i : tensor<16xf32>
  }
  } : (tensor<3x2x16xf32>) -> (tensor<16xf32>, tensor<2x2x16xf32>)
  return %s#0 : tensor<16xf32>
}

// -----

rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0, 1>]} {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
rank.kernel @move(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %x : tensor<16xf32>
}

// What was computed once, before all microbatches, is copied into the slot of
// each: it lies in none of them itself.
// CHECK-LABEL: func.func @stash_of_what_is_outside
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<private, {{[0-9]+}}, 64>]}
// CHECK: rank.segment "forward"
// CHECK: rank.copy {{.*}} {buffers = [#rank.buffer<private, {{[0-9]+}}, 64 stride 64 slots 2>]}
func.func @stash_of_what_is_outside(%p: tensor<16xf32> {graph.role = #graph.input<"p">}, %x: tensor<2x16xf32> {graph.role = #graph.input<"x">}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">}) {
  %w = rank.launch @move(%p) : (tensor<16xf32>) -> tensor<16xf32>
  %s:2 = rank.microbatches [0:0, 0:1, 1:0] of(%x) carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%xi: tensor<16xf32>):
    %v = rank.view %w offset 0 : (tensor<16xf32>) -> tensor<4x4xf32>
    rank.yield %v : tensor<4x4xf32>
  }
  rank.segment "backward" takes [1] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %kept: tensor<4x4xf32>):
    %f = rank.view %kept offset 0 : (tensor<4x4xf32>) -> tensor<16xf32>
    %g = rank.launch @move(%f) : (tensor<16xf32>) -> tensor<16xf32>
    %h = rank.view %g offset 0 : (tensor<16xf32>) -> tensor<4x4xf32>
    rank.yield %h : tensor<4x4xf32>
  }
  } : (tensor<2x16xf32>) -> (tensor<4x4xf32>, tensor<2x4x4xf32>)
  %last = rank.view %s#1 offset 16 : (tensor<2x4x4xf32>) -> tensor<16xf32>
  %sum = rank.view %s#0 offset 0 : (tensor<4x4xf32>) -> tensor<16xf32>
  %all = rank.launch @add(%sum, %last) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %y = rank.view %all offset 0 : (tensor<16xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
