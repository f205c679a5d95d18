// RUN: polyrank-opt %s --print-sharding-rules | FileCheck %s
// A rule is tested by reading it: one for each family of ops. Dims with the same
// letter are one factor.

// CHECK-LABEL: @rules
func.func @rules(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>, %w: tensor<3x6xf32>, %t: tensor<8x4xf32>, %i: tensor<2x3xi64>,
                 %h: tensor<2x12x5xf32>, %g: tensor<3xf32>, %r: tensor<4xf32>, %c: tensor<4x3xi1>, %n: tensor<i64>,
                 %q: tensor<2x4x6x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x5xf32>, %o: tensor<2x4x6x5xf32>,
                 %lse: tensor<2x4x6xf32>, %mask: tensor<1x1x6x7xi1>, %label: tensor<4xi64>, %b: tensor<2x8x4xf32>, %t2: tensor<2x3x4xf32>,
                 %experts: tensor<2x3x6xf32>, %groups: tensor<4xi64>, %ids: tensor<2xi64>) {
  // Elementwise: linear ops pass sums, monotone ones extrema.
  // CHECK: graph.neg {{.*}} "([i, j])->([i, j]) {i=4, j=3} sum=(together)"
  %0 = graph.neg %x : tensor<4x3xf32>
  // CHECK: graph.exp {{.*}} "([i, j])->([i, j]) {i=4, j=3} max=(any) min=(any)"
  %1 = graph.exp %x : tensor<4x3xf32>
  // CHECK: graph.relu {{.*}} "([i, j])->([i, j]) {i=4, j=3} max=(any) min=(any)"
  %2 = graph.relu %x : tensor<4x3xf32>
  // CHECK: graph.add {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(together, together) max=(alone, alone) min=(alone, alone)"
  %3 = graph.add %x, %y : tensor<4x3xf32>
  // CHECK: graph.sub {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(together, together) max=(alone, none) min=(alone, none)"
  %4 = graph.sub %x, %y : tensor<4x3xf32>
  // CHECK: graph.mul {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(alone, alone)"
  %5 = graph.mul %x, %y : tensor<4x3xf32>
  // CHECK: graph.div {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(alone, none)"
  %6 = graph.div %x, %y : tensor<4x3xf32>
  // CHECK: graph.max {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} max=(any, any) min=(alone, alone)"
  %7 = graph.max %x, %y : tensor<4x3xf32>
  // CHECK: graph.compare {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3}"
  %8 = graph.compare lt %x, %y : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
  // CHECK: graph.select {{.*}} "([i, j], [i, j], [i, j])->([i, j]) {i=4, j=3} sum=(none, together, together) max=(none, any, any) min=(none, any, any)"
  %9 = graph.select %c, %x, %y : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.convert {{.*}} "([i, j])->([i, j]) {i=4, j=3} max=(any) min=(any)"
  %10 = graph.convert %x : (tensor<4x3xf32>) -> tensor<4x3xf64>
  // CHECK: graph.convert {{.*}} "([i, j])->([i, j]) {i=4, j=3} max=(any) min=(any)"
  %saturates = graph.convert %x : (tensor<4x3xf32>) -> tensor<4x3xi64>
  // CHECK: graph.convert {{.*}} "([i, j])->([i, j]) {i=4, j=3}"
  %wraps = graph.convert %saturates : (tensor<4x3xi64>) -> tensor<4x3xi32>

  // Contractions: what is summed over makes the result partial.
  // CHECK: graph.matmul {{.*}} "([i, k], [k, j])->([i, j]) {i=4, j=6, k=3} reduction={k} sum=(alone, alone)"
  %11 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x3xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.matmul {{.*}} "([i, j, k, m], [i, j, l, m])->([i, j, k, l]) {i=2, j=4, k=6, l=7, m=8} reduction={m} sum=(alone, alone)"
  %12 = graph.matmul %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x6x7xf32>
  // CHECK: graph.grouped_matmul {{.*}} "([i, l], [k, l, j], [i], [k])->([i, j]) {i=4, j=6, k=2, l=3} reduction={k, l} sum=(alone, alone, none, none)"
  %rows = graph.grouped_matmul %x, %experts, %groups, %ids : (tensor<4x3xf32>, tensor<2x3x6xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x6xf32>
  // CHECK: graph.grouped_outer {{.*}} "([l, j], [l, k], [l], [i])->([i, j, k]) {i=2, j=3, k=6, l=4} reduction={l} sum=(alone, alone, none, none)"
  %outer = graph.grouped_outer %x, %rows, %groups, %ids : (tensor<4x3xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x3x6xf32>
  // CHECK: graph.reduce {{.*}} "([i, j])->([j]) {i=4, j=3} reduction={i} sum=(any)"
  %13 = graph.reduce sum %x over [0] : (tensor<4x3xf32>) -> tensor<3xf32>
  // CHECK: graph.reduce {{.*}} "([i, j])->([i]) {i=4, j=3} reduction={j:max} max=(any)"
  %14 = graph.reduce max %x over [1] : (tensor<4x3xf32>) -> tensor<4xf32>

  // Shapes: a dim that is taken apart is several factors.
  // CHECK: graph.reshape {{.*}} "([i, jk, l])->([i, j, k, l]) {i=2, j=3, k=4, l=5} sum=(any) max=(any) min=(any)"
  %15 = graph.reshape %h : (tensor<2x12x5xf32>) -> tensor<2x3x4x5xf32>
  // CHECK: graph.reshape {{.*}} "([i, k])->([j, l]) {i=4, j=6, k=3, l=2} replicated={i, j, k, l} sum=(any) max=(any) min=(any)"
  %16 = graph.reshape %x : (tensor<4x3xf32>) -> tensor<6x2xf32>
  // CHECK: graph.transpose {{.*}} "([j, k, i])->([i, j, k]) {i=5, j=2, k=12} sum=(any) max=(any) min=(any)"
  %17 = graph.transpose %h {permutation = array<i64: 2, 0, 1>} : (tensor<2x12x5xf32>) -> tensor<5x2x12xf32>
  // CHECK: graph.broadcast {{.*}} "([j])->([i, j]) {i=4, j=3} sum=(any) max=(any) min=(any)"
  %18 = graph.broadcast %g {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.slice {{.*}} "([i, j])->([i, k]) {i=4, j=3, k=2} replicated={j, k} sum=(any) max=(any) min=(any)"
  %19 = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 4, 3>, strides = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  // CHECK: graph.pad {{.*}} "([i, j])->([i, k]) {i=4, j=3, k=5} replicated={j, k} sum=(any) max=(any) min=(any)"
  %20 = graph.pad %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x5xf32>
  // CHECK: graph.concat {{.*}} "([k, i], [k, j])->([k, l]) {i=3, j=3, k=4, l=6} replicated={i, j, l} sum=(together, together) max=(any, any) min=(any, any)"
  %21 = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  // CHECK: graph.iota {{.*}} "()->([i, j]) {i=4, j=3}"
  %22 = graph.iota dim = 0 : tensor<4x3xi64>
  // CHECK: graph.constant {{.*}} "()->([i, j]) {i=4, j=3}"
  %23 = graph.constant dense<1.0> : tensor<4x3xf32>

  // Indices: a split table gives a partial row, or keeps what falls inside.
  // CHECK: graph.gather {{.*}} "([i, j], [k, l])->([k, l, j]) {i=8, j=4, k=2, l=3} indexed={i} sum=(any, none) max=(any, none) min=(any, none)"
  %24 = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: graph.gather {{.*}} "([i, j, k], [i, l])->([i, l, k]) {i=2, j=8, k=4, l=3} indexed={j} sum=(any, none) max=(any, none) min=(any, none)"
  %25 = graph.gather %b, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<2x8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: graph.scatter_add {{.*}} "([k, l], [k, l, j])->([i, j]) {i=8, j=4, k=2, l=3} reduction={k, l} indexed={i} sum=(none, any)"
  %26 = graph.scatter_add %i, %t2 {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<8x4xf32>

  // CHECK: graph.scatter_add {{.*}} "([k, l], [k, l, j], [i, j])->([i, j]) {i=8, j=4, k=2, l=3} reduction={k, l} indexed={i} sum=(none, any, none)"
  %into = graph.scatter_add %i, %t2, %t {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<2x3xi64>, tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>

  // Composites: the dims over which they reduce are split at a price.
  // CHECK: graph.softmax {{.*}} "([i, j])->([i, j]) {i=4, j=3} composite={j}"
  %27 = graph.softmax %x {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.softmax_grad {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} composite={j} sum=(alone, none)"
  %28 = graph.softmax_grad %x, %y {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.layer_norm {{.*}} "([i, j], [j], [j])->([i, j], [i], [i]) {i=4, j=3} composite={j}"
  %29:3 = graph.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: graph.layer_norm_grad {{.*}} "([i, j], [i, j], [j], [i], [i])->([i, j], [j], [j]) {i=4, j=3} reduction={i} composite={j} sum=(alone, none, none, none, none)"
  %30:3 = graph.layer_norm_grad %x, %y, %g, %r, %r : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: graph.rms_norm {{.*}} "([i, j], [j])->([i, j], [i]) {i=4, j=3} composite={j}"
  %rms:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>)
  // CHECK: graph.rms_norm_grad {{.*}} "([i, j], [i, j], [j], [i])->([i, j], [j]) {i=4, j=3} reduction={i} composite={j} sum=(alone, none, none, none)"
  %drms:2 = graph.rms_norm_grad %x, %y, %g, %r : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: graph.silu {{.*}} "([i, j])->([i, j]) {i=4, j=3}"
  %silu = graph.silu %x : tensor<4x3xf32>
  // CHECK: graph.silu_grad {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(alone, none)"
  %dsilu = graph.silu_grad %x, %y : tensor<4x3xf32>
  // CHECK: graph.gelu {{.*}} "([i, j])->([i, j]) {i=4, j=3}"
  %31 = graph.gelu erf %x : tensor<4x3xf32>
  // CHECK: graph.gelu_grad {{.*}} "([i, j], [i, j])->([i, j]) {i=4, j=3} sum=(alone, none)"
  %32 = graph.gelu_grad erf %x, %y : tensor<4x3xf32>
  // CHECK: graph.attention {{.*}} "([i, j, k, m], [i, j, l, m], [i, j, l, n])->([i, j, k, n], [i, j, k]) {i=2, j=4, k=6, l=7, m=8, n=5} composite={l, m}"
  %33:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>) -> (tensor<2x4x6x5xf32>, tensor<2x4x6xf32>)
  // CHECK: graph.attention {{.*}} "([i, j, k, m], [i, j, l, m], [i, j, l, n], [1, 1, k, l])->([i, j, k, n], [i, j, k]) {i=2, j=4, k=6, l=7, m=8, n=5} composite={k, l, m}"
  %34:2 = graph.attention %q, %k, %v mask %mask {scale = 1.0 : f64, causal = true} : (tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>, tensor<1x1x6x7xi1>) -> (tensor<2x4x6x5xf32>, tensor<2x4x6xf32>)
  // CHECK: graph.attention_grad {{.*}} "([i, j, k, n], [i, j, k, m], [i, j, l, m], [i, j, l, n], [i, j, k, n], [i, j, k])->([i, j, k, m], [i, j, l, m], [i, j, l, n]) {i=2, j=4, k=6, l=7, m=8, n=5} reduction={k, n} composite={l, m} sum=(alone, none, none, none, none, none)"
  %35:3 = graph.attention_grad %o, %q, %k, %v, %o, %lse {scale = 1.0 : f64, causal = false} : (tensor<2x4x6x5xf32>, tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>)
  // CHECK: graph.attention_grad {{.*}} "([i, j, k, n], [i, j, k, m], [i, j, l, m], [i, j, l, n], [i, j, k, n], [i, j, k])->([i, j, k, m], [i, j, l, m], [i, j, l, n]) {i=2, j=4, k=6, l=7, m=8, n=5} reduction={n} composite={k, l, m} sum=(alone, none, none, none, none, none)"
  %36:3 = graph.attention_grad %o, %q, %k, %v, %o, %lse {scale = 1.0 : f64, causal = true} : (tensor<2x4x6x5xf32>, tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x5xf32>)
  // CHECK: graph.cross_entropy {{.*}} "([i, j], [i])->([i], [i]) {i=4, j=3} composite={j}"
  %37:2 = graph.cross_entropy %x, %label {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: graph.cross_entropy_grad {{.*}} "([i], [i, j], [i], [i])->([i, j]) {i=4, j=3} composite={j} sum=(alone, none, none, none)"
  %38 = graph.cross_entropy_grad %r, %x, %label, %r {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4xf32>, tensor<4x3xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x3xf32>

  // Windows: the dim that they slide over has blocks as wide as the stride says,
  // and borders; their sums have the same, for the neighbours.
  // CHECK: graph.unfold {{.*}} "([i, 2j+1:0, k])->([i, j, k, l]) {i=2, j=6, k=5, l=3} halo={j} replicated={l} sum=(any) max=(any) min=(any)"
  %41 = graph.unfold %h {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<2x12x5xf32>) -> tensor<2x6x5x3xf32>
  // CHECK: graph.fold {{.*}} "([i, j, k, l])->([i, 2j+1:0, k]) {i=2, j=6, k=5, l=3} halo={j} replicated={l} sum=(any)"
  %42 = graph.fold %41 {dim = 1 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64} : (tensor<2x6x5x3xf32>) -> tensor<2x12x5xf32>
  // CHECK: graph.slice {{.*}} "([i, j+0:1, k])->([i, j, k]) {i=2, j=12, k=5} halo={j} sum=(any) max=(any) min=(any)"
  %43 = graph.slice %h {starts = array<i64: 0, 1, 0>, limits = array<i64: 2, 12, 5>, strides = array<i64: 1, 1, 1>} : (tensor<2x12x5xf32>) -> tensor<2x11x5xf32>
  // CHECK: graph.pad {{.*}} "([i, j, k])->([i, 2j, k]) {i=2, j=12, k=5} halo={j} sum=(any) max=(any) min=(any)"
  %44 = graph.pad %h {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 1, 0>, value = 0.0 : f64} : (tensor<2x12x5xf32>) -> tensor<2x24x5xf32>

  // The step: what a device drops does not depend on the layout.
  // CHECK: graph.dropout {{.*}} "([i, j], [], [], [])->([i, j]) {i=4, j=3} sum=(alone, none, none, none) max=(alone, none, none, none) min=(alone, none, none, none)"
  %39 = graph.dropout %x, %n, %n, %n {rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<4x3xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x3xf32>
  // CHECK: graph.uniform {{.*}} "([], [], [])->([i, j]) {i=4, j=3}"
  %uniform = graph.uniform %n, %n, %n {rng_id = 1 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x3xf32>
  // CHECK: graph.seed {{.*}} "()->([]) {}"
  %40 = graph.seed 1.0 : tensor<f32>
  return
}

// Heads that share keys are a factor of their own. Bias and mask have the factors
// of the dims that they have, and the bias's gradient is a sum over the others; a
// key that is padding would count in a sum over the keys.

// CHECK-LABEL: @attention_rules
func.func @attention_rules(%q: tensor<2x4x6x8xf32>, %k: tensor<2x2x7x8xf32>, %v: tensor<2x2x7x5xf32>, %o: tensor<2x4x6x5xf32>,
                           %l: tensor<2x4x6xf32>, %b: tensor<1x4x6x7xf32>, %c: tensor<2x1x6x1xf32>, %m: tensor<2x1x1x7xi1>, %s: tensor<i64>) {
  // CHECK: graph.attention {{.*}} "([i, jk, l, n], [i, j, m, n], [i, j, m, o], [1, jk, l, m], [i, 1, 1, m], [], [], [])->([i, jk, l, o], [i, jk, l]) {i=2, j=2, k=2, l=6, m=7, n=8, o=5} composite={l, m, n}"
  %0:2 = graph.attention %q, %k, %v bias %b mask %m dropout %s, %s, %s {scale = 1.0 : f64, causal = true, rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<2x4x6x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x5xf32>, tensor<1x4x6x7xf32>, tensor<2x1x1x7xi1>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x4x6x5xf32>, tensor<2x4x6xf32>)
  // CHECK: graph.attention_grad {{.*}} "([i, jk, l, o], [i, jk, l, n], [i, j, m, n], [i, j, m, o], [i, jk, l, o], [i, jk, l], [1, jk, l, m], [i, 1, 1, m])->([i, jk, l, n], [i, j, m, n], [i, j, m, o], [1, jk, l, m]) {i=2, j=2, k=2, l=6, m=7, n=8, o=5} reduction={i, k, l, o} composite={m, n} sum=(alone, none, none, none, none, none, none, none)"
  %1:4 = graph.attention_grad %o, %q, %k, %v, %o, %l bias %b mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x4x6x5xf32>, tensor<2x4x6x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6xf32>, tensor<1x4x6x7xf32>, tensor<2x1x1x7xi1>) -> (tensor<2x4x6x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x5xf32>, tensor<1x4x6x7xf32>)
  // CHECK: graph.attention_grad {{.*}} "([i, jk, l, o], [i, jk, l, n], [i, j, m, n], [i, j, m, o], [i, jk, l, o], [i, jk, l], [i, 1, l, 1])->([i, jk, l, n], [i, j, m, n], [i, j, m, o], [i, 1, l, 1]) {i=2, j=2, k=2, l=6, m=7, n=8, o=5} reduction={j, k, l, o} composite={m, n} sum=(alone, none, none, none, none, none, none)"
  %2:4 = graph.attention_grad %o, %q, %k, %v, %o, %l bias %c {scale = 1.0 : f64, causal = false} : (tensor<2x4x6x5xf32>, tensor<2x4x6x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6xf32>, tensor<2x1x6x1xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x5xf32>, tensor<2x1x6x1xf32>)
  return
}
