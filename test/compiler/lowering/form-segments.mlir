// RUN: polyrank-opt %s --form-segments | FileCheck %s
// RUN: polyrank-opt %s --form-segments=ahead=2 | FileCheck %s --check-prefix=AHEAD
// RUN: polyrank-opt %s --form-segments=ahead=9 | FileCheck %s --check-prefix=MANY
// RUN: not polyrank-opt %s --form-segments=ahead=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: ahead is -1, no number of microbatches
// The first microbatch starts the sums; in the others what is computed is added
// where it is computed. The last one stands behind the loop.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[S:.*]]: tensor<8xf32>)
func.func @step(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[INDICES:.*]] = rank.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  // CHECK-NEXT: %[[LOOP:.*]]:2 = rank.microbatches [0:0, 1:1, 1:2] of(%[[INDICES]], %[[X]]) carry(%[[S]]) {
  // CHECK-NEXT: rank.segment "first" takes [1] gives [0, 1] {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: tensor<i64>, %[[XI:.*]]: tensor<8xf32>, %[[SI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[Y:.*]] = graph.neg %[[XI]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %[[SI]], %[[Y]]
  // CHECK-NEXT: rank.yield %[[Y]], %[[T]]
  // CHECK: rank.segment "rest" takes [0, 1] gives [0, 1] {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: tensor<i64>, %[[XI:.*]]: tensor<8xf32>, %[[SUM:.*]]: tensor<8xf32>, %[[SI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[Y:.*]] = graph.neg %[[XI]]
  // CHECK-NEXT: %[[NEXT:.*]] = graph.add %[[SUM]], %[[Y]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %[[SI]], %[[Y]]
  // CHECK-NEXT: rank.yield %[[NEXT]], %[[T]]
  // CHECK-NEXT: }
  // CHECK-NEXT: } : (tensor<4xi64>, tensor<4x8xf32>, tensor<8xf32>)
  // CHECK-NEXT: rank.view %[[INDICES]] offset 3 : (tensor<4xi64>) -> tensor<i64>
  // CHECK-NEXT: %[[LAST:.*]] = rank.view %[[X]] offset 24 : (tensor<4x8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.neg %[[LAST]]
  // CHECK-NEXT: %[[ALL:.*]] = graph.add %[[LOOP]]#0, %[[Y]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %[[LOOP]]#1, %[[Y]]
  // CHECK-NEXT: return %[[ALL]], %[[T]]
  %0:2 = graph.microbatches count = 4 of(%x) carry(%s) {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>, %si: tensor<8xf32>):
    %y = graph.neg %xi : tensor<8xf32>
    %t = graph.add %si, %y : tensor<8xf32>
    graph.yield sum(%y) carry(%t) : tensor<8xf32>, tensor<8xf32>
  } : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// What the region does not compute is added, too: a microbatch's own slice, and
// a value from outside, once per microbatch. Of two microbatches the first is
// the whole loop.
// CHECK-LABEL: func.func @handed_on
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<2x8xf32>, %[[Y:[a-z0-9]*]]: tensor<8xf32>)
func.func @handed_on(%x: tensor<2x8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[OUTER:.*]] = graph.neg %[[Y]]
  // CHECK: %[[LOOP:.*]]:2 = rank.microbatches [0:0] of
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[XI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: rank.yield %[[XI]], %[[OUTER]]
  // CHECK-NOT: rank.segment
  // CHECK: %[[LAST:.*]] = rank.view %[[X]] offset 8
  // CHECK-NEXT: %[[SUM:.*]] = graph.add %[[LOOP]]#0, %[[LAST]]
  // CHECK-NEXT: %[[SUM2:.*]] = graph.add %[[LOOP]]#1, %[[OUTER]]
  // CHECK-NEXT: return %[[SUM]], %[[SUM2]]
  %outer = graph.neg %y : tensor<8xf32>
  %0:2 = graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>):
    graph.yield sum(%xi, %outer) carry() : tensor<8xf32>, tensor<8xf32>
  } : (tensor<2x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// With `ahead` a microbatch is cut in front of its backward. Two of three are on
// their way at once, so what the forward computes and the backward reads has two
// slots. Constants, reshapes and broadcasts are made again where they are read:
// %t is stashed, and not its other shape. The sum of the forward starts in its
// first run, which is a segment of its own; that of the backward in its first.
// The last run stands behind the loop and reads slot 0.
// AHEAD-LABEL: func.func @cut
// AHEAD-SAME: %[[X:[a-z0-9]*]]: tensor<3x8xf32>
// AHEAD: %[[LOOP:.*]]:3 = rank.microbatches [0:0, 1:1, 2:0, 1:2, 3:1] of(%{{.*}}, %[[X]]) carry() stashes [2] {
// AHEAD-NEXT: rank.segment "forward first" takes [] gives [0, 2] {
// AHEAD: %[[T:.*]] = graph.tanh %{{.*}} : tensor<8xf32>
// AHEAD-NEXT: %[[C:.*]] = graph.constant
// AHEAD-NEXT: %[[L:.*]] = graph.mul %[[T]], %[[C]]
// AHEAD-NOT: graph.seed
// AHEAD: rank.yield %[[L]], %[[T]] : tensor<8xf32>, tensor<8xf32>
// AHEAD: rank.segment "forward" takes [0] gives [0, 2] {
// AHEAD: rank.segment "backward first" takes [2] gives [1] {
// AHEAD-NEXT: ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<8xf32>, %[[KEPT:.*]]: tensor<8xf32>):
// AHEAD-NEXT: graph.seed
// AHEAD-NEXT: graph.broadcast
// AHEAD-NEXT: graph.reshape %[[KEPT]]
// AHEAD-NEXT: graph.mul
// AHEAD-NEXT: graph.constant
// AHEAD: rank.segment "backward" takes [1, 2] gives [1] {
// AHEAD: graph.add
// AHEAD: } : (tensor<3xi64>, tensor<3x8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>, tensor<2x8xf32>)
// AHEAD: rank.view %[[LOOP]]#2 offset 0 : (tensor<2x8xf32>) -> tensor<8xf32>
// AHEAD: %[[SUM:.*]] = graph.add %[[LOOP]]#1
// AHEAD: return %[[LOOP]]#0, %[[SUM]]
// As many as there are go ahead at most.
// MANY: rank.microbatches [0:0, 1:1, 1:2, 2:0, 3:1] of
// MANY: -> (tensor<8xf32>, tensor<2x4xf32>, tensor<3x8xf32>)
func.func @cut(%x: tensor<3x8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %0:2 = graph.microbatches count = 3 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>):
    %t = graph.tanh %xi : tensor<8xf32>
    %s = graph.reshape %t : (tensor<8xf32>) -> tensor<2x4xf32>
    %c = graph.constant dense<2.0> : tensor<8xf32>
    %l = graph.mul %t, %c : tensor<8xf32>
    %seed = graph.seed 1.0 {graph.phase = #graph.phase<backward>} : tensor<f32>
    %b = graph.broadcast %seed {dims = array<i64>, graph.phase = #graph.phase<backward>} : (tensor<f32>) -> tensor<2x4xf32>
    %e = graph.reshape %c {graph.phase = #graph.phase<backward>} : (tensor<8xf32>) -> tensor<2x4xf32>
    %p = graph.mul %b, %s {graph.phase = #graph.phase<backward>} : tensor<2x4xf32>
    %g = graph.mul %p, %e {graph.phase = #graph.phase<backward>} : tensor<2x4xf32>
    graph.yield sum(%l, %g) carry() : tensor<8xf32>, tensor<2x4xf32>
  } : (tensor<3x8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<2x4xf32>
}
