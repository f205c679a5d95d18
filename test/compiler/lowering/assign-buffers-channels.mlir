// RUN: polyrank-opt %s --assign-buffers --check-buffers --check-ranks | FileCheck %s
// What is on its way lies in memory of the communicator: neither a send nor a
// receive takes more of the arena than its operand or result, which is copied and
// may be private.

#mesh = #sharding.mesh<["pipe"=2]>
// CHECK-LABEL: func @step_0
// CHECK-SAME: rank.arena = #rank.arena<shared = 0,
func.func @step_0(%x: tensor<3x4xf32>, %y: tensor<17xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 1:1, 1:2] of(%x) carry() {
  rank.segment "first" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.send {{.*}} id 1 slots 2 {buffers = []} : tensor<4xf32>
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  rank.segment "rest" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.send {{.*}} id 1 slots 2 {buffers = []} : tensor<4xf32>
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  // CHECK: rank.send {{.*}} id 2 slots 1 {buffers = []} : tensor<17xf32>
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<17xf32>
  return
}
// CHECK-LABEL: func @step_1
// CHECK-SAME: rank.arena = #rank.arena<shared = 0,
func.func @step_1(%x: tensor<3x4xf32>) -> tensor<17xf32> attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1, 0:2] of(%x) carry() {
  rank.segment "all" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.recv {{.*}} id 1 slots 2 {buffers = [#rank.buffer<private, {{.*}}, 16>]} : tensor<4xf32>
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  // CHECK: rank.recv {{.*}} id 2 slots 1 {buffers = [#rank.buffer<private, {{.*}}, 68>]} : tensor<17xf32>
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<17xf32>
  return %1 : tensor<17xf32>
}
