// RUN: polyrank-opt %s --form-kernels --split-input-file | FileCheck %s
// RUN: polyrank-opt %s --form-kernels=fuse=false --split-input-file | FileCheck %s --check-prefix=ALONE

// A layer_norm, its parts and what follows read the row once: one kernel, which
// comes from the module that the norm stands in.

// CHECK: rank.kernel @[[NORM:.*]](%{{.*}}: tensor<8x32xf32>, %{{.*}}: tensor<32xf32>, %{{.*}}: tensor<32xf32>)
// CHECK-NOT: rank.kernel
// CHECK-LABEL: func.func @norm
// CHECK: %[[OUT:.*]]:3 = rank.launch @[[NORM]]({{.*}}) {graph.scope = "model.ln"}
// CHECK-NOT: rank.launch
// CHECK: return
// ALONE-COUNT-8: rank.kernel
func.func @norm(%x: tensor<8x32xf32>, %g: tensor<32xf32>, %b: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y, %mean, %rstd = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64, graph.origin = "ln/node", graph.scope = "model.ln"}
    : (tensor<8x32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>, tensor<8xf32>)
  %z = graph.neg %y : tensor<8x32xf32>
  return %z, %mean, %rstd : tensor<8x32xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Equal structure is one kernel with two launches; where an op comes from does
// not matter.

// CHECK: rank.kernel @[[ADD:.*]](%{{.*}}) -> tensor<64xf32>
// CHECK-NOT: rank.kernel
// CHECK-LABEL: func.func @shared
// CHECK: rank.launch @[[ADD]](%{{.*}}) {graph.scope = "a"}
// CHECK: rank.launch @[[ADD]](%{{.*}}) {graph.scope = "b"}
func.func @shared(%x: tensor<64xf32>, %y: tensor<64xf32>, %u: tensor<64xf32>, %v: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = graph.add %x, %y {graph.scope = "a"} : tensor<64xf32>
  %1 = graph.add %u, %v {graph.scope = "b"} : tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}

// -----

// A reshape outside of kernels is a view; constants and broadcasts are part of
// each kernel that reads them.

// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<4x16xf32>
// CHECK: %[[V:.*]] = rank.view %[[X]] offset 0 : (tensor<4x16xf32>) -> tensor<64xf32>
// CHECK: rank.launch @{{.*}}(%[[V]]) : (tensor<64xf32>) -> tensor<64xf32>
func.func @views(%x: tensor<4x16xf32>) -> tensor<64xf32> {
  %0 = graph.reshape %x : (tensor<4x16xf32>) -> tensor<64xf32>
  %1 = graph.constant dense<2.0> : tensor<f32>
  %2 = graph.broadcast %1 {dims = array<i64>} : (tensor<f32>) -> tensor<64xf32>
  %3 = graph.mul %0, %2 : tensor<64xf32>
  return %3 : tensor<64xf32>
}

// -----

// Ops on both sides of a collective are two kernels, and collectives keep
// their order.

// CHECK-LABEL: func.func @around
// CHECK: rank.launch
// CHECK: rank.all_reduce sum {{.*}} id 1
// CHECK: rank.all_reduce sum {{.*}} id 2
// CHECK: rank.launch
#mesh = #sharding.mesh<["data"=2]>
func.func @around(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x : tensor<64xf32>
  %1 = rank.all_reduce sum %y over <#mesh, {"data"}> id 1 : (tensor<64xf32>) -> tensor<64xf32>
  %2 = rank.all_reduce sum %0 over <#mesh, {"data"}> id 2 : (tensor<64xf32>) -> tensor<64xf32>
  %3 = graph.add %0, %2 : tensor<64xf32>
  %4 = graph.add %3, %1 : tensor<64xf32>
  return %4 : tensor<64xf32>
}

// -----

// The loss of a large vocabulary and its gradient read the logits in one
// kernel. Its small values are summed by others, which compute some of them
// again; what this kernel then no longer gives, it no longer computes.

// CHECK-LABEL: func.func @loss
// CHECK-SAME: %[[LOGITS:[^:]*]]: tensor<4x64x50257xf32>
// CHECK: rank.launch @{{.*}}(%[[LOGITS]], {{.*}}tensor<4x64x50257xf32>
// CHECK-NOT: rank.launch @{{.*}}%[[LOGITS]]
// CHECK: return
func.func @loss(%x: tensor<4x64x50257xf32>, %t: tensor<4x64xi64>) -> (tensor<f32>, tensor<f32>, tensor<4x64x50257xf32>) {
  %ignored = graph.constant dense<-100> : tensor<4x64xi64>
  %rows, %lse = graph.cross_entropy %x, %t {axis = 2 : i64, ignore_index = -100 : i64} : (tensor<4x64x50257xf32>, tensor<4x64xi64>) -> (tensor<4x64xf32>, tensor<4x64xf32>)
  %0 = graph.compare ne %t, %ignored : (tensor<4x64xi64>, tensor<4x64xi64>) -> tensor<4x64xi1>
  %1 = graph.convert %0 : (tensor<4x64xi1>) -> tensor<4x64xf32>
  %count = graph.reduce sum %1 over [0, 1] : (tensor<4x64xf32>) -> tensor<f32>
  %sum = graph.reduce sum %rows over [0, 1] : (tensor<4x64xf32>) -> tensor<f32>
  %2 = graph.seed 3.906250e-03 : tensor<f32>
  %3 = graph.broadcast %2 {dims = array<i64>} : (tensor<f32>) -> tensor<4x64xf32>
  %dx = graph.cross_entropy_grad %3, %x, %t, %lse {axis = 2 : i64, ignore_index = -100 : i64} : (tensor<4x64xf32>, tensor<4x64x50257xf32>, tensor<4x64xi64>, tensor<4x64xf32>) -> tensor<4x64x50257xf32>
  return %count, %sum, %dx : tensor<f32>, tensor<f32>, tensor<4x64x50257xf32>
}

// -----

// What became one kernel is a derivative where all of it is, and of the earliest
// phase of its parts.

// CHECK-LABEL: func.func @update
// CHECK: rank.launch {{.*}} {graph.phase = #graph.phase<update>}
// CHECK-LABEL: func.func @backward_and_update
// CHECK: rank.launch {{.*}} {graph.phase = #graph.phase<backward>}
// CHECK-LABEL: func.func @forward_and_update
// CHECK: rank.launch {{[^{]*}} : (tensor<64xf32>)
func.func @update(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x {graph.phase = #graph.phase<update>} : tensor<64xf32>
  %1 = graph.neg %0 {graph.phase = #graph.phase<update>} : tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func @backward_and_update(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x {graph.phase = #graph.phase<backward>} : tensor<64xf32>
  %1 = graph.neg %0 {graph.phase = #graph.phase<update>} : tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func @forward_and_update(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x : tensor<64xf32>
  %1 = graph.neg %0 {graph.phase = #graph.phase<update>} : tensor<64xf32>
  return %1 : tensor<64xf32>
}
// CHECK-LABEL: func.func @backward
// CHECK: rank.launch {{.*}} {graph.origin = "a/node", graph.scope = "a"}
// CHECK-LABEL: func.func @both
// CHECK: rank.launch {{.*}} {graph.scope = "a"}
func.func @backward(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x {graph.origin = "a/node", graph.scope = "a"} : tensor<64xf32>
  %1 = graph.neg %0 {graph.origin = "a/node", graph.scope = "a"} : tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func @both(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x {graph.scope = "a"} : tensor<64xf32>
  %1 = graph.neg %0 {graph.origin = "a/node", graph.scope = "a"} : tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// What the backward computes again has a kernel of its own, although both read
// the same value: the result is not kept until then.

// CHECK-LABEL: func.func @again
// CHECK: %[[FIRST:.*]] = rank.launch @{{.*}}(%arg0)
// CHECK: %[[AGAIN:.*]] = rank.launch @{{.*}}(%arg0)
// CHECK: return %[[FIRST]], %[[AGAIN]]
func.func @again(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = graph.exp %x {graph.scope = "a"} : tensor<64x64xf32>
  %1 = graph.exp %x {graph.scope = "a", graph.phase = #graph.phase<backward>} : tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A derivative that computes the same is no repetition.

// CHECK-LABEL: func.func @derivative
// CHECK: %[[BOTH:.*]]:2 = rank.launch @{{.*}}(%arg0)
// CHECK: return %[[BOTH]]#0, %[[BOTH]]#1
func.func @derivative(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = graph.exp %x {graph.scope = "a"} : tensor<64x64xf32>
  %1 = graph.exp %x {graph.scope = "a", graph.origin = "a/node", graph.phase = #graph.phase<backward>} : tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}
