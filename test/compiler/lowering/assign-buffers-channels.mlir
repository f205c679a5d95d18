// RUN: polyrank-opt %s --assign-buffers --check-buffers --check-ranks | FileCheck %s
// What is sent lies in a channel of the sender's shared region: a header of 64
// bytes, and a slot of whole lines for each value on its way. Who receives it
// names the same place. All sends of one value share a channel.

#mesh = #sharding.mesh<["pipe"=2]>
// CHECK-LABEL: func @step_0
// Channels of 64 + 2 * 64 and 64 + 128 bytes, beside what is private.
// CHECK-SAME: rank.arena = #rank.arena<shared = 384,
func.func @step_0(%x: tensor<3x4xf32>, %y: tensor<17xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 1:1, 1:2] of(%x) carry() {
  rank.segment "first" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.send {{.*}} id 1 slots 2 {buffers = [], channel = #rank.buffer<shared, [[ONE:.*]], 192>} : tensor<4xf32>
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  rank.segment "rest" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.send {{.*}} id 1 slots 2 {buffers = [], channel = #rank.buffer<shared, [[ONE]], 192>} : tensor<4xf32>
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  // CHECK: rank.send {{.*}} id 2 slots 1 {buffers = [], channel = #rank.buffer<shared, [[TWO:.*]], 192>} : tensor<17xf32>
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<17xf32>
  return
}
// CHECK-LABEL: func @step_1
// What is received is copied: it may be private.
// CHECK-SAME: rank.arena = #rank.arena<shared = 0,
func.func @step_1(%x: tensor<3x4xf32>) -> tensor<17xf32> attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1, 0:2] of(%x) carry() {
  rank.segment "all" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // CHECK: rank.recv {{.*}} id 1 slots 2 {buffers = [#rank.buffer<private, {{.*}}, 16>], channel = #rank.buffer<shared, [[ONE]], 192>} : tensor<4xf32>
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  // CHECK: rank.recv {{.*}} id 2 slots 1 {buffers = [#rank.buffer<private, {{.*}}, 68>], channel = #rank.buffer<shared, [[TWO]], 192>} : tensor<17xf32>
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<17xf32>
  return %1 : tensor<17xf32>
}
