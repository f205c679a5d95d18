// RUN: polyrank-opt %s --form-segments | FileCheck %s
// The first microbatch starts the sums; the rest is added where it is computed.

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: rank.microbatches count = 4 of(%{{.*}}) carry(%{{.*}}) first {
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
  %0:2 = graph.microbatches count = 4 of(%x) carry(%s) {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>, %si: tensor<8xf32>):
    %y = graph.neg %xi : tensor<8xf32>
    %t = graph.add %si, %y : tensor<8xf32>
    graph.yield sum(%y) carry(%t) : tensor<8xf32>, tensor<8xf32>
  } : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// What the region does not compute is added, too: a microbatch's own slice, and
// a value from outside, once per microbatch.
// CHECK-LABEL: func.func @handed_on
// CHECK-SAME: , %[[Y:[a-z0-9]*]]: tensor<8xf32>)
func.func @handed_on(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[OUTER:.*]] = graph.neg %[[Y]]
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[XI:.*]]: tensor<8xf32>):
  // CHECK-NEXT: rank.yield %[[XI]], %[[OUTER]]
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[XI:.*]]: tensor<8xf32>, %[[SUM:[^:]*]]: tensor<8xf32>, %[[SUM2:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[NEXT:.*]] = graph.add %[[SUM]], %[[XI]]
  // CHECK-NEXT: %[[NEXT2:.*]] = graph.add %[[SUM2]], %[[OUTER]]
  // CHECK-NEXT: rank.yield %[[NEXT]], %[[NEXT2]]
  %outer = graph.neg %y : tensor<8xf32>
  %0:2 = graph.microbatches count = 4 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<8xf32>):
    graph.yield sum(%xi, %outer) carry() : tensor<8xf32>, tensor<8xf32>
  } : (tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}
