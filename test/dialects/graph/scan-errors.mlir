// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// What a scan demands of its operands, its body and what that gives.

func.func @iterations(%c: tensor<3xf32>) {
  // expected-error @+1 {{[1] has 0 iterations}}
  graph.scan 0 of() carry(%c) uses() {
  ^bb0(%s: tensor<3xf32>):
    graph.scan_yield stack() carry(%s) : tensor<3xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @elements(%x: tensor<4x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[1] goes through 'tensor<4x3xf32>' in 2 iterations}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    graph.scan_yield stack() carry(%e) : tensor<3xf32>
  } : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @scalar(%x: tensor<f32>) {
  // expected-error @+1 {{[1] goes through 'tensor<f32>' in 2 iterations}}
  graph.scan 2 of(%x) carry(%x) uses() {
  ^bb0(%e: tensor<f32>, %s: tensor<f32>):
    graph.scan_yield stack() carry(%e) : tensor<f32>
  } : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----
func.func @arguments(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[2] block arguments must be 'tensor<3xf32>', 'tensor<3xf32>'}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<2xf32>):
    graph.scan_yield stack() carry(%e) : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
func.func @terminator(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] must end in a graph.scan_yield of 2 values, the last 1 of them carried}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    graph.scan_yield stack() carry(%e) : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  return
}

// -----
func.func @stacks(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] stacks 2 elements in 'tensor<4x3xf32>'}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    graph.scan_yield stack(%s) carry(%e) : tensor<3xf32>, tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  return
}

// -----
func.func @carried_type(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] carries 'tensor<3xf32>' on as 'tensor<3xf64>'}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>):
    graph.scan_yield stack() carry(%e) : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf64>
  return
}

// -----
func.func @given(%x: tensor<2x3xf32>, %c: tensor<2xf32>) {
  // expected-error @+1 {{[3] gives 'tensor<3xf32>' in an iteration, not 'tensor<2xf32>'}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<3xf32>, %s: tensor<2xf32>):
    graph.scan_yield stack() carry(%e) : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @random(%x: tensor<2x3xf32>, %c: tensor<3xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{[4] holds a graph.dropout}}
  graph.scan 2 of(%x) carry(%c) uses(%n) {
  ^bb0(%e: tensor<3xf32>, %s: tensor<3xf32>, %m: tensor<i64>):
    // expected-note @+1 {{it stands here}}
    %d = graph.dropout %e, %m, %m, %m {rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<3xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<3xf32>
    graph.scan_yield stack() carry(%d) : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>, tensor<i64>) -> tensor<3xf32>
  return
}

// -----
func.func @nested(%x: tensor<2x2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[4] holds a graph.scan}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<2x3xf32>, %s: tensor<3xf32>):
    // expected-note @+1 {{it stands here}}
    %d = graph.scan 2 of(%e) carry(%s) uses() {
    ^bb0(%f: tensor<3xf32>, %t: tensor<3xf32>):
      graph.scan_yield stack() carry(%f) : tensor<3xf32>
    } : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
    graph.scan_yield stack() carry(%d) : tensor<3xf32>
  } : (tensor<2x2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----
#mesh = #sharding.mesh<["a"=2]>
func.func @laid_out(%x: tensor<2x4xf32>, %c: tensor<4xf32>) {
  // expected-error @+1 {{[4] computes 'tensor<4xf32, #sharding.layout<#sharding.mesh<["a"=2]>, [{"a"}]>>'; what is in a scan has no layout}}
  graph.scan 2 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<4xf32>, %s: tensor<4xf32>):
    // expected-note @+1 {{it is computed here}}
    %k = graph.constant dense<1.0> : tensor<4xf32, #sharding.layout<#mesh, [{"a"}]>>
    graph.scan_yield stack() carry(%e) : tensor<4xf32>
  } : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
