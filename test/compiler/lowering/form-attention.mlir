// Attention becomes a library call whose operands are parts of one projection
// and whose results are written where they are needed; with parts, and where
// the target says so, it stays and is decomposed.

// RUN: polyrank-opt %s --form-attention=attention=fused | FileCheck %s
// RUN: polyrank-opt %s --form-attention=attention=parts | FileCheck %s --check-prefix=PARTS
// RUN: polyrank-opt %s --form-attention | FileCheck %s --check-prefix=AUTO

// PARTS-NOT: rank.attention
// PARTS: graph.attention_grad
// PARTS-NOT: rank.attention

// CHECK-LABEL: func.func @projection
func.func @projection(%qkv: tensor<2x4x3x2x8xf32>) -> tensor<2x4x16xf32> {
  // CHECK-NEXT: %[[Y:.*]], %{{.*}} = rank.attention %[[X:.*]] at [0, 192, 8, 48], %[[X]] at [16, 192, 8, 48], %[[X]] at [32, 192, 8, 48]
  // CHECK-SAME: to [64, 8, 16] sizes [2, 2, 2, 4, 4, 8, 8] {causal = true, scale = 2.500000e-01 : f64}
  // CHECK-SAME: -> (tensor<2x4x16xf32>, tensor<2x2x4xf32>)
  // CHECK-NEXT: return %[[Y]]
  // Four queries and keys are few.
  // AUTO-NOT: rank.attention
  %q0 = graph.slice %qkv {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 2, 4, 1, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %k0 = graph.slice %qkv {starts = array<i64: 0, 0, 1, 0, 0>, limits = array<i64: 2, 4, 2, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %v0 = graph.slice %qkv {starts = array<i64: 0, 0, 2, 0, 0>, limits = array<i64: 2, 4, 3, 2, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x8xf32>) -> tensor<2x4x1x2x8xf32>
  %q1 = graph.reshape %q0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %k1 = graph.reshape %k0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %v1 = graph.reshape %v0 : (tensor<2x4x1x2x8xf32>) -> tensor<2x4x2x8xf32>
  %q = graph.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %k = graph.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %v = graph.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %y, %lse = graph.attention %q, %k, %v {scale = 0.25 : f64, causal = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
  %r = graph.reshape %t : (tensor<2x4x2x8xf32>) -> tensor<2x4x16xf32>
  return %r : tensor<2x4x16xf32>
}

// Many queries and keys are a call; all options go with it.
// CHECK-LABEL: func.func @options
// AUTO-LABEL: func.func @options
func.func @options(%q: tensor<1x4x200x8xf32>, %k: tensor<1x2x200x8xf32>, %v: tensor<1x2x200x6xf32>, %b: tensor<1x4x1x200xf32>, %m: tensor<1x1x200x200xi1>, %s: tensor<i64>) -> (tensor<1x4x200x6xf32>, tensor<1x4x200xf32>) {
  // CHECK: rank.attention
  // AUTO-NEXT: rank.attention %{{.*}} at [0, 0, 1600, 8], %{{.*}} at [0, 0, 1600, 8], %{{.*}} at [0, 0, 1200, 6] bias %{{.*}} mask %{{.*}} masked add dropout %[[S:.*]], %[[S]], %[[S]]
  // AUTO-SAME: to [0, 1200, 6] sizes [1, 4, 2, 200, 200, 8, 6]
  // AUTO-SAME: {causal = true, fill = -1.000000e+09 : f64, rate = 1.000000e-01 : f64, rng_id = 3 : i64, scale = 2.500000e-01 : f64, softcap = 3.000000e+01 : f64, window = 50 : i64}
  %y, %lse = graph.attention %q, %k, %v bias %b mask %m masked add dropout %s, %s, %s {scale = 0.25 : f64, causal = true, window = 50 : i64, softcap = 30.0 : f64, fill = -1.0e9 : f64, rate = 0.1 : f64, rng_id = 3 : i64}
    : (tensor<1x4x200x8xf32>, tensor<1x2x200x8xf32>, tensor<1x2x200x6xf32>, tensor<1x4x1x200xf32>, tensor<1x1x200x200xi1>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<1x4x200x6xf32>, tensor<1x4x200xf32>)
  return %y, %lse : tensor<1x4x200x6xf32>, tensor<1x4x200xf32>
}

// Gradients are written in the order in which the projection's gradient needs
// them.
// CHECK-LABEL: func.func @gradient
func.func @gradient(%g0: tensor<2x4x16xf32>, %q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %v: tensor<2x2x4x8xf32>, %y: tensor<2x2x4x8xf32>, %lse: tensor<2x2x4xf32>, %b: tensor<1x2x4x4xf32>) -> (tensor<2x4x2x8xf32>, tensor<2x2x4x8xf32>, tensor<2x4x16xf32>, tensor<1x2x4x4xf32>) {
  // CHECK-NEXT: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]], %[[DB:.*]] = rank.attention_grad %{{.*}} at [0, 64, 8, 16], %{{.*}} at [0, 64, 32, 8], %{{.*}} at [0, 64, 32, 8], %{{.*}} at [0, 64, 32, 8], %{{.*}} at [0, 64, 32, 8], %{{.*}} bias %{{.*}} to [64, 8, 16], [64, 32, 8], [64, 8, 16] sizes [2, 2, 2, 4, 4, 8, 8]
  // CHECK-NEXT: return %[[DQ]], %[[DK]], %[[DV]], %[[DB]]
  %g1 = graph.reshape %g0 : (tensor<2x4x16xf32>) -> tensor<2x4x2x8xf32>
  %g = graph.transpose %g1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  %dq, %dk, %dv, %db = graph.attention_grad %g, %q, %k, %v, %y, %lse bias %b {scale = 0.25 : f64, causal = false}
    : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4xf32>, tensor<1x2x4x4xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<1x2x4x4xf32>)
  %tq = graph.transpose %dq {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
  %tv = graph.transpose %dv {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
  %rv = graph.reshape %tv : (tensor<2x4x2x8xf32>) -> tensor<2x4x16xf32>
  return %tq, %dk, %rv, %db : tensor<2x4x2x8xf32>, tensor<2x2x4x8xf32>, tensor<2x4x16xf32>, tensor<1x2x4x4xf32>
}

// The gradient reads the result as it is written.
// CHECK-LABEL: func.func @both
func.func @both(%q: tensor<2x2x4x8xf32>, %g: tensor<2x2x4x8xf32>) -> (tensor<2x4x16xf32>, tensor<2x2x4x8xf32>) {
  // CHECK-NEXT: %[[Y:.*]], %[[LSE:.*]] = rank.attention {{.*}} to [64, 8, 16]
  // CHECK-NEXT: %[[DQ:.*]], %{{.*}}, %{{.*}} = rank.attention_grad {{.*}}, %[[Y]] at [0, 64, 8, 16], %[[LSE]] to
  // CHECK-NEXT: return %[[Y]], %[[DQ]]
  %y, %lse = graph.attention %q, %q, %q {scale = 0.25 : f64, causal = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
  %r = graph.reshape %t : (tensor<2x4x2x8xf32>) -> tensor<2x4x16xf32>
  %dq, %dk, %dv = graph.attention_grad %g, %q, %q, %q, %y, %lse {scale = 0.25 : f64, causal = true}
    : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>)
  return %r, %dq : tensor<2x4x16xf32>, tensor<2x2x4x8xf32>
}

// Narrow rows are a call with fewer queries and keys than wide ones.
// AUTO-LABEL: func.func @width
// AUTO: graph.attention {{.*}}tensor<1x2x127x33xf32>
// AUTO: rank.attention {{.*}}sizes [1, 2, 2, 64, 64, 32, 32]
// AUTO: rank.attention {{.*}}sizes [1, 2, 2, 128, 128, 33, 33]
// AUTO: graph.attention {{.*}}tensor<1x2x63x32xf32>
func.func @width(%wide: tensor<1x2x127x33xf32>, %narrow: tensor<1x2x64x32xf32>, %long: tensor<1x2x128x33xf32>, %short: tensor<1x2x63x32xf32>)
    -> (tensor<1x2x127x33xf32>, tensor<1x2x64x32xf32>, tensor<1x2x128x33xf32>, tensor<1x2x63x32xf32>) {
  %0, %l0 = graph.attention %wide, %wide, %wide {scale = 0.25 : f64, causal = false} : (tensor<1x2x127x33xf32>, tensor<1x2x127x33xf32>, tensor<1x2x127x33xf32>) -> (tensor<1x2x127x33xf32>, tensor<1x2x127xf32>)
  %1, %l1 = graph.attention %narrow, %narrow, %narrow {scale = 0.25 : f64, causal = false} : (tensor<1x2x64x32xf32>, tensor<1x2x64x32xf32>, tensor<1x2x64x32xf32>) -> (tensor<1x2x64x32xf32>, tensor<1x2x64xf32>)
  %2, %l2 = graph.attention %long, %long, %long {scale = 0.25 : f64, causal = false} : (tensor<1x2x128x33xf32>, tensor<1x2x128x33xf32>, tensor<1x2x128x33xf32>) -> (tensor<1x2x128x33xf32>, tensor<1x2x128xf32>)
  %3, %l3 = graph.attention %short, %short, %short {scale = 0.25 : f64, causal = false} : (tensor<1x2x63x32xf32>, tensor<1x2x63x32xf32>, tensor<1x2x63x32xf32>) -> (tensor<1x2x63x32xf32>, tensor<1x2x63xf32>)
  return %0, %1, %2, %3 : tensor<1x2x127x33xf32>, tensor<1x2x64x32xf32>, tensor<1x2x128x33xf32>, tensor<1x2x63x32xf32>
}

// Queries, keys, values and gradients of 16 bits stay as they are; lse and the bias are f32.
// CHECK-LABEL: func.func @narrow
// AUTO-LABEL: func.func @narrow
func.func @narrow(%g: tensor<1x2x200x8xbf16>, %q: tensor<1x2x200x8xbf16>, %b: tensor<1x2x1x200xf32>) -> (tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x1x200xf32>) {
  // CHECK: rank.attention
  // AUTO-NEXT: rank.attention
  // AUTO-SAME: -> (tensor<1x2x200x8xbf16>, tensor<1x2x200xf32>)
  // AUTO-NEXT: rank.attention_grad
  // AUTO-SAME: -> (tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x1x200xf32>)
  %y, %lse = graph.attention %q, %q, %q bias %b {scale = 0.25 : f64, causal = true}
    : (tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x1x200xf32>) -> (tensor<1x2x200x8xbf16>, tensor<1x2x200xf32>)
  %dq, %dk, %dv, %db = graph.attention_grad %g, %q, %q, %q, %y, %lse bias %b {scale = 0.25 : f64, causal = true}
    : (tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200xf32>, tensor<1x2x1x200xf32>) -> (tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x1x200xf32>)
  return %y, %dq, %db : tensor<1x2x200x8xbf16>, tensor<1x2x200x8xbf16>, tensor<1x2x1x200xf32>
}

// f16 likewise.
// CHECK-LABEL: func.func @halves
// AUTO-LABEL: func.func @halves
func.func @halves(%q: tensor<1x1x200x4xf16>) -> tensor<1x1x200x4xf16> {
  // CHECK: rank.attention
  // AUTO-NEXT: rank.attention
  // AUTO-SAME: -> (tensor<1x1x200x4xf16>, tensor<1x1x200xf32>)
  %y, %lse = graph.attention %q, %q, %q {scale = 1.0 : f64, causal = false} : (tensor<1x1x200x4xf16>, tensor<1x1x200x4xf16>, tensor<1x1x200x4xf16>) -> (tensor<1x1x200x4xf16>, tensor<1x1x200xf32>)
  return %y : tensor<1x1x200x4xf16>
}

// An operand is read in place only where the elements of a row are neighbours and
// where each row has its own: what has its heads last, or the same row for each
// key, is read as a copy.
// CHECK-LABEL: func.func @copies
func.func @copies(%q: tensor<1x2x4x8xf32>, %x: tensor<1x4x8x2xf32>, %w: tensor<1x2x8xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK-DAG: %[[K:.*]] = graph.transpose %{{.*}} : (tensor<1x4x8x2xf32>) -> tensor<1x2x4x8xf32>
  // CHECK-DAG: %[[V:.*]] = graph.broadcast %{{.*}} : (tensor<1x2x8xf32>) -> tensor<1x2x4x8xf32>
  // CHECK: rank.attention %{{.*}} at [0, 0, 32, 8], %[[K]] at [0, 0, 32, 8], %[[V]] at [0, 0, 32, 8]
  %k = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x8x2xf32>) -> tensor<1x2x4x8xf32>
  %v = graph.broadcast %w {dims = array<i64: 0, 1, 3>} : (tensor<1x2x8xf32>) -> tensor<1x2x4x8xf32>
  %y, %lse = graph.attention %q, %k, %v {scale = 0.25 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %y : tensor<1x2x4x8xf32>
}

// The gradient reads a result whose queries are written before samples and heads:
// the transpose of three dims is undone by another one.
// CHECK-LABEL: func.func @queries_first
func.func @queries_first(%q: tensor<2x2x4x8xf32>, %g: tensor<2x2x4x8xf32>) -> (tensor<4x2x2x8xf32>, tensor<2x2x4x8xf32>) {
  // CHECK-NEXT: %[[Y:.*]], %[[LSE:.*]] = rank.attention {{.*}} to [16, 8, 32]
  // CHECK-NEXT: %[[DQ:.*]], %{{.*}}, %{{.*}} = rank.attention_grad {{.*}}, %[[Y]] at [0, 16, 8, 32], %[[LSE]] to
  // CHECK-NEXT: return %[[Y]], %[[DQ]]
  %y, %lse = graph.attention %q, %q, %q {scale = 0.25 : f64, causal = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  %t = graph.transpose %y {permutation = array<i64: 2, 0, 1, 3>} : (tensor<2x2x4x8xf32>) -> tensor<4x2x2x8xf32>
  %dq, %dk, %dv = graph.attention_grad %g, %q, %q, %q, %y, %lse {scale = 0.25 : f64, causal = true}
    : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>)
  return %t, %dq : tensor<4x2x2x8xf32>, tensor<2x2x4x8xf32>
}
