// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// What a loop demands of its operands, its body and what that gives.

func.func @iterations(%x: tensor<1x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[1] has 1 iterations}}
  rank.loop 1 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @elements(%x: tensor<4x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[1] goes through 'tensor<4x3xf32>' in 2 iterations}}
  rank.loop 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @stacks(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{[1] stacks 2 elements in 'tensor<3x3xf32>'}}
  rank.loop 2 of(%x) carry() uses() {
  ^bb0(%e: tensor<3xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<2x3xf32>) -> tensor<3x3xf32>
  return
}

// -----
func.func @arguments(%x: tensor<2x3xf32>, %u: tensor<3xf32>) {
  // expected-error @+1 {{[2] block arguments must be 'tensor<3xf32>', 'tensor<3xf32>'}}
  rank.loop 2 of(%x) carry() uses(%u) {
  ^bb0(%e: tensor<3xf32>, %s: tensor<2xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----
func.func @carries(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] carries more values than it has results}}
  rank.loop 2 of(%x) carry(%c, %c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>, %t: tensor<3xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @carried_type(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] carries 'tensor<3xf32>' on as 'tensor<3xf64>'}}
  rank.loop 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf64>
  return
}

// -----
func.func @yielded(%x: tensor<2x3xf32>, %c: tensor<2xf32>) {
  // expected-error @+1 {{[3] must yield 'tensor<2xf32>'}}
  rank.loop 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<2xf32>):
    rank.yield %e : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["a"=2]>
func.func @communicates(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[4] holds a rank.all_reduce}}
  rank.loop 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    // expected-note @+1 {{it stands here}}
    %r = rank.all_reduce sum %e over <#mesh, {"a"}> id 1 : (tensor<3xf32>) -> tensor<3xf32>
    rank.yield %r : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @nested(%x: tensor<2x2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[4] holds a rank.loop}}
  rank.loop 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<2x3xf32>, %s: tensor<3xf32>):
    // expected-note @+1 {{it stands here}}
    %r = rank.loop 2 of(%e) carry(%s) uses() {
    ^bb0(%f: tensor<3xf32>, %t: tensor<3xf32>):
      rank.yield %f : tensor<3xf32>
    } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
    rank.yield %r : tensor<3xf32>
  } : (tensor<2x2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}
