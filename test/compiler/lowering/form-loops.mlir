// RUN: polyrank-opt %s --form-loops | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --form-loops --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %s --form-loops --form-gemms --form-kernels --lower-kernels --assign-buffers --check-buffers --evaluate=arena --expect=%t.npz

// CHECK-LABEL: func.func @layer
// CHECK: %[[R:.+]]:2 = rank.loop 4 of(%arg0) carry(%arg1) uses(%arg2) {
// CHECK-NEXT: ^bb0(%[[E:.+]]: tensor<2x3xf32>, %[[S:.+]]: tensor<2x3xf32>, %[[W:.+]]: tensor<3x3xf32>):
// CHECK: rank.yield %[[N:.+]], %[[N]] : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @layer(%x: tensor<4x2x3xf32>, %h: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> (tensor<4x2x3xf32> {graph.role = #graph.output<"y0">}, tensor<2x3xf32> {graph.role = #graph.output<"y1">}) {
  %ys, %last = graph.scan 4 of(%x) carry(%h) uses(%w) {
  ^bb0(%e: tensor<2x3xf32>, %c: tensor<2x3xf32>, %v: tensor<3x3xf32>):
    %p = graph.matmul %c, %v batch [] x [] contract [1] x [1] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %s = graph.add %e, %p : tensor<2x3xf32>
    %n = graph.tanh %s : tensor<2x3xf32>
    graph.scan_yield stack(%n) carry(%n) : tensor<2x3xf32>, tensor<2x3xf32>
  } : (tensor<4x2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>) -> (tensor<4x2x3xf32>, tensor<2x3xf32>)
  return %ys, %last : tensor<4x2x3xf32>, tensor<2x3xf32>
}

// What nobody reads is not computed: the first stack, and the second carried
// value with all that goes into it. The third is read by the first.
// CHECK-LABEL: func.func @unread
// CHECK: rank.loop 3 reversed of(%arg0) carry(%arg1, %arg1) uses() {
// CHECK-NEXT: ^bb0(%[[E:.+]]: tensor<2xf32>, %[[A:.+]]: tensor<2xf32>, %[[C:.+]]: tensor<2xf32>):
// CHECK-NEXT: %[[X:.+]] = graph.add %[[A]], %[[C]]
// CHECK-NEXT: %[[Y:.+]] = graph.mul %[[C]], %[[E]]
// CHECK-NEXT: rank.yield %[[X]], %[[Y]] : tensor<2xf32>, tensor<2xf32>
func.func @unread(%x: tensor<3x2xf32>, %h: tensor<2xf32>) -> (tensor<2xf32> {graph.role = #graph.output<"y2">}) {
  %stack, %a, %b, %c = graph.scan 3 reversed of(%x) carry(%h, %h, %h) uses(%h) {
  ^bb0(%e: tensor<2xf32>, %a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>, %u: tensor<2xf32>):
    %0 = graph.add %a, %c : tensor<2xf32>
    %1 = graph.mul %b, %u : tensor<2xf32>
    %2 = graph.mul %c, %e : tensor<2xf32>
    graph.scan_yield stack(%1) carry(%0, %1, %2) : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  } : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %a : tensor<2xf32>
}

// Of one iteration no loop is left, nor of one that nobody reads.
// CHECK-LABEL: func.func @once
// CHECK-NOT: loop
// CHECK: %[[E:.+]] = graph.reshape %arg0 : (tensor<1x2xf32>) -> tensor<2xf32>
// CHECK: %[[N:.+]] = graph.add %arg1, %[[E]]
// CHECK: graph.reshape %[[N]] : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NOT: loop
func.func @once(%x: tensor<1x2xf32>, %h: tensor<2xf32>, %z: tensor<2x2xf32>) -> (tensor<1x2xf32> {graph.role = #graph.output<"y3">}, tensor<2xf32> {graph.role = #graph.output<"y4">}) {
  %ys, %last = graph.scan 1 of(%x) carry(%h) uses() {
  ^bb0(%e: tensor<2xf32>, %s: tensor<2xf32>):
    %n = graph.add %s, %e : tensor<2xf32>
    graph.scan_yield stack(%n) carry(%s) : tensor<2xf32>, tensor<2xf32>
  } : (tensor<1x2xf32>, tensor<2xf32>) -> (tensor<1x2xf32>, tensor<2xf32>)
  %unread = graph.scan 2 of(%z) carry(%h) uses() {
  ^bb0(%e: tensor<2xf32>, %s: tensor<2xf32>):
    graph.scan_yield stack() carry(%e) : tensor<2xf32>
  } : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %ys, %last : tensor<1x2xf32>, tensor<2xf32>
}

// Carried values change places; one is stacked as it comes in; one stays.
// CHECK-LABEL: func.func @exchange
func.func @exchange(%x: tensor<3x2xf32>, %h: tensor<2xf32>) -> (tensor<3x2xf32> {graph.role = #graph.output<"y5">}, tensor<2xf32> {graph.role = #graph.output<"y6">}, tensor<2xf32> {graph.role = #graph.output<"y7">}, tensor<2xf32> {graph.role = #graph.output<"y8">}) {
  %r:4 = graph.scan 3 of(%x) carry(%h, %h, %h) uses() {
  ^bb0(%e: tensor<2xf32>, %a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>):
    %0 = graph.add %a, %e : tensor<2xf32>
    %1 = graph.add %0, %c : tensor<2xf32>
    graph.scan_yield stack(%a) carry(%b, %1, %c) : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  } : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Of many iterations the matrix is turned once, and not for a product that reads
// it in order.
// CHECK-LABEL: func.func @turned
// CHECK: %[[T:.+]] = graph.transpose %arg2 {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
// CHECK: rank.loop 8 of(%arg0) carry(%arg1) uses(%arg2, %[[T]]) {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<4x3xf32>, %[[C:.+]]: tensor<4x2xf32>, %[[W:.+]]: tensor<3x2xf32>, %[[V:.+]]: tensor<2x3xf32>):
// CHECK-NEXT: graph.matmul %[[C]], %[[V]] batch [] x [] contract [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
// CHECK: graph.matmul %{{.+}}, %[[W]] batch [] x [] contract [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
func.func @turned(%x: tensor<8x4x3xf32>, %h: tensor<4x2xf32>, %w: tensor<3x2xf32>) -> (tensor<4x2xf32> {graph.role = #graph.output<"y20">}) {
  %last = graph.scan 8 of(%x) carry(%h) uses(%w) {
  ^bb0(%e: tensor<4x3xf32>, %c: tensor<4x2xf32>, %v: tensor<3x2xf32>):
    %p = graph.matmul %c, %v batch [] x [] contract [1] x [1] : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
    %s = graph.add %e, %p : tensor<4x3xf32>
    %n = graph.matmul %s, %v batch [] x [] contract [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    graph.scan_yield stack() carry(%n) : tensor<4x2xf32>
  } : (tensor<8x4x3xf32>, tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %last : tensor<4x2xf32>
}
