// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every numbered constraint of rank.attention and its gradient.

func.func @types(%q: tensor<1x2x4x8xf32>, %w: tensor<1x2x4x8xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; all are of one float type}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %w at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf64>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @lse_type(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f32'; not 'bf16' (graph.convert)}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xbf16>)
  return
}

// -----
func.func @lse_of_narrow(%q: tensor<1x2x4x8xbf16>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xbf16>)
  return
}

// -----
func.func @bias_of_narrow(%q: tensor<1x2x4x8xf16>, %b: tensor<1x1x1x4xf16>) {
  // expected-error @+1 {{[1] elements of bias and lse are 'f32', the type of sums of 'f16'; not 'f16' (graph.convert)}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] bias %b to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf16>, tensor<1x2x4x8xf16>, tensor<1x2x4x8xf16>, tensor<1x1x1x4xf16>) -> (tensor<1x2x4x8xf16>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @result_of_narrow(%q: tensor<1x2x4x8xbf16>) {
  // expected-error @+1 {{[1] computes with 'bf16' and 'f32'; all are of one float type}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @mask_type(%q: tensor<1x2x4x8xf32>, %m: tensor<1x1x4x4xf32>) {
  // expected-error @+1 {{[1] the mask has 'f32' instead of booleans}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] mask %m to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @counter(%q: tensor<1x2x4x8xf32>, %s: tensor<1xi64>) {
  // expected-error @+1 {{[1] a counter is 'tensor<1xi64>'; it must be an i64 scalar}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] dropout %s, %s, %s to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @few_sizes(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[2] sizes are [1, 2, 2, 4, 4, 8]}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @no_keys(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[2] sizes are [1, 2, 2, 4, 0, 8, 8]}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 0, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @groups(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{heads are a multiple of groups}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 3, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @outside(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[3] reads element 64 of key, which has 64}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [1, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @short_rows(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[3] value is at [0, 64, 32, 7], in rows of 8}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 7] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @negative(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[3] query is at [0, 64, -32, 8], in rows of 8}}
  %y, %lse = rank.attention %q at [0, 64, -32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @numbers(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[3] query is at [0, 64, 32], in rows of 8}}
  %y, %lse = rank.attention %q at [0, 64, 32], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @result_rows(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[4] result is at [64, 32, 4], in rows of 8}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 4] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @gap(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[4] a loop of 4 writes result with stride 9 where 8 elements are covered}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 36, 9] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @large_result(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[4] writes 64 of 128 elements of result}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @lse(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[5] lse is 'tensor<1x2x5xf32>' instead of [1, 2, 4]}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x5xf32>)
  return
}

// -----
func.func @bias(%q: tensor<1x2x4x8xf32>, %b: tensor<1x2x4x3xf32>) {
  // expected-error @+1 {{[5] bias is 'tensor<1x2x4x3xf32>', whose dims are not [1, 2, 4, 4] or 1}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] bias %b to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x3xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @mask_rank(%q: tensor<1x2x4x8xf32>, %m: tensor<4x4xi1>) {
  // expected-error @+1 {{[5] mask is 'tensor<4x4xi1>'}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] mask %m to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<4x4xi1>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @window(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] a window of 2; it is at least 1, and of causal attention}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = false, window = 2 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @window_of_none(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] a window of 0}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, window = 0 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @softcap(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] softcap is 0}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, softcap = 0.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @fill(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] masked zero; add and replace have a fill, and zero has none}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, fill = -1.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @no_fill(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] masked add; add and replace have a fill}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] masked add to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @rate(%q: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{[6] dropout has a rate in [0, 1)}}
  %y, %lse = rank.attention %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8] to [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----
func.func @bias_gradient(%q: tensor<1x2x4x8xf32>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[7] the bias's gradient is 'tensor<1x2x4x4xf32>'; the bias is 'none'}}
  %dq, %dk, %dv, %db = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x4xf32>)
  return
}

// -----
func.func @gradient_rows(%q: tensor<1x2x4x8xf32>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[4] the key's gradient is at [64, 32, 7], in rows of 8}}
  %dq, %dk, %dv = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 7], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}

// -----
func.func @gradient_types(%q: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf64>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'}}
  %dq, %dk, %dv = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %y at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf64>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}

// -----
func.func @gradient_sizes(%q: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf32>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[2] sizes are [0, 2, 2, 4, 4, 8, 8]}}
  %dq, %dk, %dv = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %y at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [0, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}

// -----
func.func @gradient_outside(%q: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf32>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[3] reads element 65 of the result's gradient, which has 64}}
  %dq, %dk, %dv = rank.attention_grad %q at [2, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %y at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}

// -----
func.func @gradient_lse(%q: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf32>, %lse: tensor<2x4xf32>) {
  // expected-error @+1 {{[5] lse is 'tensor<2x4xf32>' instead of [1, 2, 4]}}
  %dq, %dk, %dv = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %y at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}

// -----
func.func @gradient_window(%q: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf32>, %lse: tensor<1x2x4xf32>) {
  // expected-error @+1 {{[6] a window of -1}}
  %dq, %dk, %dv = rank.attention_grad %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %q at [0, 64, 32, 8], %y at [0, 64, 32, 8], %lse to [64, 32, 8], [64, 32, 8], [64, 32, 8] sizes [1, 2, 2, 4, 4, 8, 8] {scale = 0.5 : f64, causal = true, window = -1 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return
}
