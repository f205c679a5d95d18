// RUN: polyrank-opt %s --form-segments | FileCheck %s
// The first microbatch starts the sums; in the others what is computed is added
// where it is computed. The last one stands behind the loop.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[S:.*]]: tensor<8xf32>)
func.func @step(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[INDICES:.*]] = rank.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  // CHECK-NEXT: %[[LOOP:.*]]:2 = rank.microbatches count = 3 of(%[[INDICES]], %[[X]]) carry(%[[S]]) first {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: tensor<i64>, %[[XI:.*]]: tensor<8xf32>, %[[SI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[Y:.*]] = graph.neg %[[XI]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %[[SI]], %[[Y]]
  // CHECK-NEXT: rank.yield %[[Y]], %[[T]]
  // CHECK: rest {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: tensor<i64>, %[[XI:.*]]: tensor<8xf32>, %[[SUM:.*]]: tensor<8xf32>, %[[SI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[Y:.*]] = graph.neg %[[XI]]
  // CHECK-NEXT: %[[NEXT:.*]] = graph.add %[[SUM]], %[[Y]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %[[SI]], %[[Y]]
  // CHECK-NEXT: rank.yield %[[NEXT]], %[[T]]
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
  // CHECK: %[[LOOP:.*]]:2 = rank.microbatches count = 1
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[XI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: rank.yield %[[XI]], %[[OUTER]]
  // CHECK-NOT: rest
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
