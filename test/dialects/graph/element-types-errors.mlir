// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Nothing but graph.convert changes the type of elements: every op states that, most as their first constraint.

func.func @reshape(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<24xf64>
  return
}

// -----
func.func @transpose(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'i32'; element types are equal (graph.convert)}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xi32>
  return
}

// -----
func.func @broadcast(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.broadcast %x {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf64>
  return
}

// -----
func.func @slice(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 6>, strides = array<i64: 1, 2>} : (tensor<4x6xf32>) -> tensor<4x3xf64>
  return
}

// -----
func.func @pad(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.pad %x {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf64>
  return
}

// -----
func.func @unfold(%x: tensor<8xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<8xf32>) -> tensor<6x3xf64>
  return
}

// -----
func.func @fold(%x: tensor<6x3xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.fold %x {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<6x3xf32>) -> tensor<8xf64>
  return
}

// -----
func.func @concat(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.concat %x, %y {dim = 0 : i64} : (tensor<4xf32>, tensor<4xf64>) -> tensor<8xf32>
  return
}

// -----
func.func @concat_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.concat %x, %x {dim = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf64>
  return
}

// -----
func.func @gather(%x: tensor<4x6xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.gather %x, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<2x6xf64>
  return
}

// -----
func.func @scatter_add(%x: tensor<2x6xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{[1] elements of the result are 'f32', the type of sums of 'f32'; not 'f64' (graph.convert)}}
  %0 = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<2xi64>, tensor<2x6xf32>) -> tensor<4x6xf64>
  return
}

// -----
func.func @matmul(%x: tensor<4x6xf32>, %w: tensor<6x8xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @matmul_result(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf64>
  return
}

// -----
func.func @narrow_matmul(%x: tensor<4x6xbf16>, %w: tensor<6x8xbf16>) {
  // expected-error @+1 {{[1] multiplies 'bf16' and gives 'f16'; the result is 'bf16', or 'f32', in which its products are added}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xbf16>, tensor<6x8xbf16>) -> tensor<4x8xf16>
  return
}

// -----
func.func @narrow_and_wide(%x: tensor<4x6xbf16>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[1] computes with 'bf16' and 'f32'; element types are equal (graph.convert)}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xbf16>, tensor<6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----
func.func @narrow_grouped_outer(%x: tensor<4x6xf16>, %y: tensor<4x8xf16>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[1] multiplies 'f16' and gives 'f64'; the result is 'f16', or 'f32', in which its products are added}}
  %0 = graph.grouped_outer %x, %y, %g, %e : (tensor<4x6xf16>, tensor<4x8xf16>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x6x8xf64>
  return
}

// -----
func.func @narrow_grouped_matmul(%x: tensor<4x6xf16>, %w: tensor<2x6x8xf16>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[1] multiplies 'f16' and gives 'bf16'; the result is 'f16', or 'f32', in which its products are added}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf16>, tensor<2x6x8xf16>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xbf16>
  return
}

// -----
func.func @grouped_matmul(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf64>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf64>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @grouped_outer_result(%x: tensor<4x6xf32>, %y: tensor<4x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.grouped_outer %x, %y, %g, %e : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x6x8xf64>
  return
}

// -----
func.func @reduce(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.reduce sum %x over [1] : (tensor<4x6xf32>) -> tensor<4xf64>
  return
}

// -----
func.func @select(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{[2] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.select %c, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----
func.func @compare(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{[2] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.compare lt %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xi1>
  return
}

// -----
func.func @layer_norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf64>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----
func.func @layer_norm_grad(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<8xf64>) {
  // expected-error @+1 {{[1] elements of statistics are 'f32', the type of sums of 'f32'; not 'f64' (graph.convert)}}
  %0:3 = graph.layer_norm_grad %x, %x, %g, %m, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf64>, tensor<8xf64>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @rms_norm(%x: tensor<8x4xf32>, %g: tensor<4xf64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf64>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----
func.func @rms_norm_grad(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<8xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:2 = graph.rms_norm_grad %x, %x, %g, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<4xf64>)
  return
}

// -----
func.func @cross_entropy(%x: tensor<4x6xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<4xf64>, tensor<4xf32>)
  return
}

// -----
func.func @cross_entropy_grad(%x: tensor<4x6xf32>, %l: tensor<4xi64>, %d: tensor<4xf32>) {
  // expected-error @+1 {{[1] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.cross_entropy_grad %d, %x, %l, %d {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf64>
  return
}

// -----
func.func @dropout(%x: tensor<4xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{[3] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.dropout %x, %s, %s, %s {rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xf64>
  return
}

// Sums of narrow floats have the type in which they are formed.

// -----
func.func @narrow_layer_norm(%x: tensor<8x4xbf16>, %g: tensor<4xbf16>) {
  // expected-error @+1 {{[1] elements of statistics are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %0:3 = graph.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<8x4xbf16>, tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----
func.func @narrow_deviation(%x: tensor<8x4xbf16>, %g: tensor<4xbf16>) {
  // expected-error @+1 {{[1] elements of statistics are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %0:3 = graph.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<8x4xbf16>, tensor<8xf32>, tensor<8xbf16>)
  return
}

// -----
func.func @narrow_rms_norm(%x: tensor<8x4xf16>, %g: tensor<4xf16>) {
  // expected-error @+1 {{[1] elements of statistics are 'f32', the type of sums of 'f16'; not 'f16' (graph.convert)}}
  %0:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xf16>, tensor<4xf16>) -> (tensor<8x4xf16>, tensor<8xf16>)
  return
}

// -----
func.func @narrow_rms_norm_grad(%x: tensor<8x4xf16>, %g: tensor<4xf16>, %m: tensor<8xf16>) {
  // expected-error @+1 {{[1] elements of statistics are 'f32', the type of sums of 'f16'; not 'f16' (graph.convert)}}
  %0:2 = graph.rms_norm_grad %x, %x, %g, %m : (tensor<8x4xf16>, tensor<8x4xf16>, tensor<4xf16>, tensor<8xf16>) -> (tensor<8x4xf16>, tensor<4xf16>)
  return
}

// -----
func.func @narrow_lse(%x: tensor<4x6xbf16>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[1] elements of lse are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x6xbf16>, tensor<4xi64>) -> (tensor<4xbf16>, tensor<4xbf16>)
  return
}

// -----
func.func @narrow_lse_grad(%x: tensor<4x6xbf16>, %l: tensor<4xi64>, %d: tensor<4xbf16>) {
  // expected-error @+1 {{[1] elements of lse are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %0 = graph.cross_entropy_grad %d, %x, %l, %d {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4xbf16>, tensor<4x6xbf16>, tensor<4xi64>, tensor<4xbf16>) -> tensor<4x6xbf16>
  return
}

// -----
func.func @narrow_scatter_add(%x: tensor<2x6xbf16>, %i: tensor<2xi64>) {
  // expected-error @+1 {{[1] elements of the result are 'f32', the type of sums of 'bf16'; not 'bf16' (graph.convert)}}
  %0 = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<2xi64>, tensor<2x6xbf16>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @parts_of_integers(%x: tensor<4xi64>) {
  // expected-error @+1 {{[2] rounds parts of a sum of 'i64' to 'f32', which is no narrower float}}
  %0 = graph.convert %x {parts} : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @parts_to_integers(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] rounds parts of a sum of 'f32' to 'i32', which is no narrower float}}
  %0 = graph.convert %x {parts} : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @parts_to_wider(%x: tensor<4xbf16>) {
  // expected-error @+1 {{[2] rounds parts of a sum of 'bf16' to 'f32', which is no narrower float}}
  %0 = graph.convert %x {parts} : (tensor<4xbf16>) -> tensor<4xf32>
  return
}

// -----

func.func @parts_to_as_wide(%x: tensor<4xbf16>) {
  // expected-error @+1 {{[2] rounds parts of a sum of 'bf16' to 'f16', which is no narrower float}}
  %0 = graph.convert %x {parts} : (tensor<4xbf16>) -> tensor<4xf16>
  return
}
