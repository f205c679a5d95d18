// What attention and its gradient refuse, by the number of the condition.

// RUN: polyrank-opt %s -split-input-file -verify-diagnostics

func.func @elements(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @lse_elements(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f32'; not 'f64'}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf64>)
  return
}

// -----
func.func @bias_elements(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %b: tensor<1x2x4x4xf64>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f32'; not 'f64'}}
  %0:2 = graph.attention %q, %k, %v bias %b {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<1x2x4x4xf64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @rank(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x4x2xf32>) {
  // expected-error @+1 {{[2] query, key, value and result have the dims [batch, heads, sequence, width], and bias and mask those of the scores; one has [2, 4, 2]}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @mask_rank(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %m: tensor<4x4xi1>) {
  // expected-error @+1 {{[2] query, key, value and result have the dims [batch, heads, sequence, width], and bias and mask those of the scores; one has [4, 4]}}
  %0:2 = graph.attention %q, %k, %v mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<4x4xi1>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @key(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x6xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[3] key has dims [2, 2, 4, 6] where the others make it [2, 2, 4, 2]}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x6xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @lse(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[3] lse has dims [2, 2, 5] where the others make it [2, 2, 4]}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x5xf32>)
  return
}

// -----
func.func @mask(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %m: tensor<1x1x4x3xi1>) {
  // expected-error @+1 {{[3] mask has dims [1, 1, 4, 3], which do not broadcast to the scores [2, 2, 4, 4]}}
  %0:2 = graph.attention %q, %k, %v mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<1x1x4x3xi1>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @bias(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %b: tensor<3x1x1x4xf32>) {
  // expected-error @+1 {{[3] bias has dims [3, 1, 1, 4], which do not broadcast to the scores [2, 2, 4, 4]}}
  %0:2 = graph.attention %q, %k, %v bias %b {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<3x1x1x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @window(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[5] a causal attention has a window of 0; a window is at least 1, and of causal attention}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = true, window = 0 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @window_causal(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[5] an attention that is not causal has a window of 2; a window is at least 1, and of causal attention}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, window = 2 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @softcap(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[6] softcap is 0.000000e+00; it must be a positive number}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, softcap = 0.0 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @softcap_infinite(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[6] softcap is INF; it must be a positive number}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, softcap = 0x7FF0000000000000 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @fill(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[7] masked zero and a fill of -1.000000; add and replace have a number, and zero has none}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, fill = -1.0 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @no_fill(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[7] masked add and no fill; add and replace have a number, and zero has none}}
  %0:2 = graph.attention %q, %k, %v masked add {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @fill_nan(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[7] masked replace and a fill of nan; add and replace have a number, and zero has none}}
  %0:2 = graph.attention %q, %k, %v masked replace {scale = 1.0 : f64, causal = false, fill = 0x7FF8000000000000 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @rate_only(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, rate = 0.5 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @counters_only(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b, %c {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @id_only(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @rate_of_one(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 1.0 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @two_counters(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>) {
  // expected-error @+1 {{[8] 2 counters and a global shape of 0 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @counter_dims(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<1xi64>) {
  // expected-error @+1 {{[8] a counter must be a scalar}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>, tensor<1xi64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @place(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] 3 counters and a global shape of 4 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64, global_shape = array<i64: 4, 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @place_dims(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] 7 counters and a global shape of 3 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:2 = graph.attention %q, %k, %v dropout %a, %b, %c, %a, %a, %a, %a {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64, global_shape = array<i64: 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @place_alone(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[8] 0 counters and a global shape of 4 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false, global_shape = array<i64: 4, 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @gradient_elements(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf64>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf64>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_lse_elements(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf64>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f32'; not 'f64'}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_bias_elements(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %b: tensor<1x2x4x4xf64>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f32'; not 'f64'}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l bias %b {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<1x2x4x4xf64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_rank(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[2] query, key, value and result have the dims [batch, heads, sequence, width], and bias and mask those of the scores; one has [2, 4, 2]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_mask_rank(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %m: tensor<4x4xi1>) {
  // expected-error @+1 {{[2] query, key, value and result have the dims [batch, heads, sequence, width], and bias and mask those of the scores; one has [4, 4]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<4x4xi1>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_key(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x6xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[3] key has dims [2, 2, 4, 6] where the others make it [2, 2, 4, 2]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x6xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_lse(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x5xf32>) {
  // expected-error @+1 {{[3] lse has dims [2, 2, 5] where the others make it [2, 2, 4]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x5xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_mask(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %m: tensor<1x1x4x3xi1>) {
  // expected-error @+1 {{[3] mask has dims [1, 1, 4, 3], which do not broadcast to the scores [2, 2, 4, 4]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<1x1x4x3xi1>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_bias(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %b: tensor<3x1x1x4xf32>) {
  // expected-error @+1 {{[3] bias has dims [3, 1, 1, 4], which do not broadcast to the scores [2, 2, 4, 4]}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l bias %b {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<3x1x1x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_window(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[5] a causal attention has a window of 0; a window is at least 1, and of causal attention}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = true, window = 0 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_window_causal(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[5] an attention that is not causal has a window of 2; a window is at least 1, and of causal attention}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, window = 2 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_softcap(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[6] softcap is 0.000000e+00; it must be a positive number}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, softcap = 0.0 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_softcap_infinite(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[6] softcap is INF; it must be a positive number}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, softcap = 0x7FF0000000000000 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_fill(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[7] masked zero and a fill of -1.000000; add and replace have a number, and zero has none}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, fill = -1.0 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_no_fill(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[7] masked add and no fill; add and replace have a number, and zero has none}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l masked add {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_fill_nan(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[7] masked replace and a fill of nan; add and replace have a number, and zero has none}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l masked replace {scale = 1.0 : f64, causal = false, fill = 0x7FF8000000000000 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_rate_only(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, rate = 0.5 : f64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_counters_only(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b, %c {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_id_only(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_rate_of_one(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] dropout has a rate in [0, 1), an rng_id and counters, or none of them}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 1.0 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_two_counters(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>) {
  // expected-error @+1 {{[8] 2 counters and a global shape of 0 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_counter_dims(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<1xi64>) {
  // expected-error @+1 {{[8] a counter must be a scalar}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>, tensor<1xi64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_place(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] 3 counters and a global shape of 4 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b, %c {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64, global_shape = array<i64: 4, 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_place_dims(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error @+1 {{[8] 7 counters and a global shape of 3 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l dropout %a, %b, %c, %a, %a, %a, %a {scale = 1.0 : f64, causal = false, rate = 0.5 : f64, rng_id = 3 : i64, global_shape = array<i64: 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_place_alone(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[8] 0 counters and a global shape of 4 dims; there are seed, step and microbatch, and four offsets where there is a global shape of four dims}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false, global_shape = array<i64: 4, 2, 4, 4>} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @result(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[3] result has dims [2, 2, 4, 6] where the others make it [2, 2, 4, 2]}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x6xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @value(%q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<3x2x4x2xf32>) {
  // expected-error @+1 {{[3] value has dims [3, 2, 4, 2] where the others make it [2, 2, 4, 2]}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<3x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @heads(%q: tensor<2x2x4x2xf32>, %k: tensor<2x4x4x2xf32>, %v: tensor<2x4x4x2xf32>) {
  // expected-error @+1 {{[4] 2 heads of queries cannot share 4 heads of keys and values}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return
}

// -----
func.func @heads_divide(%q: tensor<2x3x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>) {
  // expected-error @+1 {{[4] 3 heads of queries cannot share 2 heads of keys and values}}
  %0:2 = graph.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<2x3x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x3x4x2xf32>, tensor<2x3x4xf32>)
  return
}

// -----
func.func @gradient_heads(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x4x4x2xf32>, %v: tensor<2x4x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[4] 2 heads of queries cannot share 4 heads of keys and values}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_of_result(%dy: tensor<2x2x4x3xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x3xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_of_query(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x3xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_of_key(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x3xf32>, tensor<2x2x4x2xf32>)
  return
}

// -----
func.func @gradient_of_value(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:3 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x3xf32>)
  return
}

// -----
func.func @gradient_of_no_bias(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:4 = graph.attention_grad %dy, %q, %k, %v, %y, %l {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<1x2x4x4xf32>)
  return
}

// -----
func.func @gradient_of_bias(%dy: tensor<2x2x4x2xf32>, %q: tensor<2x2x4x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>, %y: tensor<2x2x4x2xf32>, %l: tensor<2x2x4xf32>, %b: tensor<1x2x4x4xf32>) {
  // expected-error @+1 {{[9] gradients must have the types of their values}}
  %0:4 = graph.attention_grad %dy, %q, %k, %v, %y, %l bias %b {scale = 1.0 : f64, causal = false} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>, tensor<1x2x4x4xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x4xf32>)
  return
}
