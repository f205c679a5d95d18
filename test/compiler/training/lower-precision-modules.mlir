// A module that --fp32 names computes in f32, a recurrent layer with all that is in
// its loop. A parameter that others read too is read in both types.

// RUN: polyrank-opt %s --lower-precision="precision=bf16 fp32=rnn" 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t
// SAID: 1 product computes in bf16 with sums in f32; --fp32 keeps body.rnn in f32

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK: %[[W16:.+]] = graph.convert %[[W]]
// CHECK: graph.scan 16 of({{.*}}) carry({{.*}}) uses(%[[W]]) {
// CHECK: graph.matmul {{.*}} -> tensor<4x8xf32>
// CHECK: %[[LAST:.+]] = graph.convert {{.*}} -> tensor<4x8xbf16>
// CHECK: graph.matmul %[[LAST]], %[[W16]] {{.*}} -> tensor<4x8xbf16>
func.func @step(%w: tensor<8x8xf32> {graph.role = #graph.parameter<@w>}, %xs: tensor<16x4x8xf32> {graph.role = #graph.input<"x">}, %h: tensor<4x8xf32> {graph.role = #graph.input<"h">})
    -> (tensor<8x8xf32> {graph.role = #graph.next<0>}, tensor<16x4x8xf32> {graph.role = #graph.output<"y">}, tensor<4x8xf32> {graph.role = #graph.output<"last">}) {
  %ys, %last = graph.scan 16 of(%xs) carry(%h) uses(%w) {
  ^bb0(%x: tensor<4x8xf32>, %before: tensor<4x8xf32>, %weight: tensor<8x8xf32>):
    %product = graph.matmul %before, %weight batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %sum = graph.add %x, %product : tensor<4x8xf32>
    %next = graph.tanh %sum : tensor<4x8xf32>
    graph.scan_yield stack(%next) carry(%next) : tensor<4x8xf32>, tensor<4x8xf32>
  } {graph.scope = "body.rnn"} : (tensor<16x4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<16x4x8xf32>, tensor<4x8xf32>)
  %y = graph.matmul %last, %w batch [] x [] contract [1] x [0] {graph.scope = "body.head"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %w, %ys, %y : tensor<8x8xf32>, tensor<16x4x8xf32>, tensor<4x8xf32>
}
