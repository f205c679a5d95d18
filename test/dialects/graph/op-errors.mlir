// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// What ops demand of the shapes, types and numbers that they are given, without layouts.

func.func @unequal_shapes(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @+1 {{[1] operand 1 has type 'tensor<5xf32>', the result 'tensor<4xf32>'; shapes are equal (graph.broadcast)}}
  %0 = graph.add %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @result_element(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] computes with 'f32' and 'f64'; element types are equal (graph.convert)}}
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----
func.func @constant_shape() {
  // expected-error @+1 {{[1] has a value of type 'tensor<4xf32>' and a result of type 'tensor<5xf32>'}}
  "graph.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<5xf32>
  return
}

// -----
func.func @constant_element() {
  // expected-error @+1 {{[1] has a value of type 'tensor<4xf32>' and a result of type 'tensor<4xf64>'}}
  "graph.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf64>
  return
}

// -----
func.func @iota_dim() {
  // expected-error @+1 {{[1] counts along dim 1 of a result of rank 1}}
  graph.iota dim = 1 : tensor<4xi64>
  return
}

// -----
func.func @contracts_one(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[2] contracts 1 dims of the left operand with 0 of the right one}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x6x8xf32>
  return
}

// -----
func.func @batches_one(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[2] batches 1 dims of the left operand with 0 of the right one}}
  %0 = graph.matmul %x, %w batch [0] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----
func.func @contracts_nothing_there(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[3] contracts dims 2 and 0, which the operands do not have}}
  %0 = graph.matmul %x, %w batch [] x [] contract [2] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x6x8xf32>
  return
}

// -----
func.func @contracts_before(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[3] contracts dims 1 and -1, which the operands do not have}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [-1] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x6x8xf32>
  return
}

// -----
func.func @contracts_sizes(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[4] contracts dims of sizes 4 and 6}}
  %0 = graph.matmul %x, %w batch [] x [] contract [0] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  return
}

// -----
func.func @contracts_twice(%x: tensor<4x6xf32>, %w: tensor<6x6xf32>) {
  // expected-error @+1 {{[5] names a dim twice}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1, 1] x [0, 1] : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @batch_and_contracted(%x: tensor<4x6xf32>, %w: tensor<6x6xf32>) {
  // expected-error @+1 {{[5] names a dim twice}}
  %0 = graph.matmul %x, %w batch [1] x [1] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<6x4xf32>
  return
}

// -----
func.func @product(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @+1 {{[6] has result 'tensor<8x4xf32>', its operands give the shape [4, 8]}}
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<8x4xf32>
  return
}

// -----
func.func @rows_of_three_dims(%x: tensor<1x4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[2] has operands of 3, 3, 1 and 1 dims, not of 2, 3, 1 and 1}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<1x4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @one_matrix(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[2] has operands of 2, 2, 1 and 1 dims, not of 2, 3, 1 and 1}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @groups_of_two_dims(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4x1xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[2] has operands of 2, 3, 2 and 1 dims}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4x1xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @one_id(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<i64>) {
  // expected-error @+1 {{[2] has operands of 2, 3, 1 and 0 dims}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @groups_of_other_rows(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<3xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[3] does not fit}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<3xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @ids_of_other_matrices(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<3xi64>) {
  // expected-error @+1 {{[3] does not fit}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<3xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @rows_of_other_length(%x: tensor<4x6xf32>, %w: tensor<2x7x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[3] does not fit}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x7x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @grouped_result(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[4] has result 'tensor<8x4xf32>', its operands give the shape [4, 8]}}
  %0 = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<8x4xf32>
  return
}

// -----
func.func @others_of_other_rows(%x: tensor<4x6xf32>, %w: tensor<3x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[3] does not fit}}
  %0 = graph.grouped_outer %x, %w, %g, %e : (tensor<4x6xf32>, tensor<3x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x6x8xf32>
  return
}

// -----
func.func @outer_of_other_groups(%x: tensor<4x6xf32>, %w: tensor<4x8xf32>, %g: tensor<3xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[3] does not fit}}
  %0 = graph.grouped_outer %x, %w, %g, %e : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<3xi64>, tensor<2xi64>) -> tensor<2x6x8xf32>
  return
}

// -----
func.func @outer_of_matrices(%x: tensor<4x6xf32>, %w: tensor<4x8x1xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[2] has operands of 2, 3, 1 and 1 dims, not of 2, 2, 1 and 1}}
  %0 = graph.grouped_outer %x, %w, %g, %e : (tensor<4x6xf32>, tensor<4x8x1xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x6x8xf32>
  return
}

// -----
func.func @outer_result(%x: tensor<4x6xf32>, %w: tensor<4x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[4] has result 'tensor<2x8x6xf32>', its operands give the shape [2, 6, 8]}}
  %0 = graph.grouped_outer %x, %w, %g, %e : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x8x6xf32>
  return
}

// -----
func.func @reduce_dim(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] dims ascend and lie inside the operand's rank of 2}}
  %0 = graph.reduce sum %x over [2] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @reduce_order(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] dims ascend and lie inside the operand's rank of 2}}
  %0 = graph.reduce sum %x over [1, 0] : (tensor<4x6xf32>) -> tensor<f32>
  return
}

// -----
func.func @reduce_result(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] has result 'tensor<4xf32>', expected the shape [6]}}
  %0 = graph.reduce sum %x over [0] : (tensor<4x6xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @reshape(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] gives 'tensor<4x6xf32>' the shape of 'tensor<5x5xf32>', which has another number of elements}}
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<5x5xf32>
  return
}

// -----
func.func @transpose_twice(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] needs a permutation of 2 dims}}
  %0 = graph.transpose %x {permutation = array<i64: 0, 0>} : (tensor<4x6xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @transpose_result(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] does not take 'tensor<4x6xf32>' to 'tensor<4x6xf32>'}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @transpose_rank(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] does not take 'tensor<4x6xf32>' to 'tensor<6x4x1xf32>'}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4x1xf32>
  return
}

// -----
func.func @broadcast_dims(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] has 1 dims for an operand of 2}}
  %0 = graph.broadcast %x {dims = array<i64: 0>} : (tensor<4x6xf32>) -> tensor<4x6x3xf32>
  return
}

// -----
func.func @broadcast_order(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] dims ascend and lie inside the result's rank of 2}}
  %0 = graph.broadcast %x {dims = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return
}

// -----
func.func @broadcast_outside(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] dims ascend and lie inside the result's rank of 2}}
  %0 = graph.broadcast %x {dims = array<i64: 0, 2>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @broadcast_size(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[4] puts dim 1 of size 6 on dim 1 of size 7; reshape a dim of size 1 away}}
  %0 = graph.broadcast %x {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<4x7xf32>
  return
}

// -----
func.func @slice_numbers(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] needs a start, a limit and a stride per dim}}
  %0 = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 4, 6>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @slice_before(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] takes [-1, 3) by 1 of dim 0 of size 4}}
  %0 = graph.slice %x {starts = array<i64: -1, 0>, limits = array<i64: 3, 6>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @slice_behind(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] takes [0, 7) by 1 of dim 1 of size 6}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 7>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x7xf32>
  return
}

// -----
func.func @slice_backwards(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] takes [3, 2) by 1 of dim 0 of size 4}}
  %0 = graph.slice %x {starts = array<i64: 3, 0>, limits = array<i64: 2, 6>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<0x6xf32>
  return
}

// -----
func.func @slice_stride(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] takes [0, 6) by 0 of dim 1 of size 6}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 6>, strides = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @slice_result(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[4] result dim 1 has size 1, the slice 2}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 6>, strides = array<i64: 1, 4>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  return
}

// -----
func.func @pad_numbers(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[2] needs a low, a high and an interior padding per dim}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: 0>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @pad_low(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] pads dim 0 by a negative number; use slice}}
  %0 = graph.pad %x {low = array<i64: -1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<3x6xf32>
  return
}

// -----
func.func @pad_high(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] pads dim 1 by a negative number; use slice}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0, -1>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<4x5xf32>
  return
}

// -----
func.func @pad_interior(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] pads dim 0 by a negative number; use slice}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: -1, 0>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<1x6xf32>
  return
}

// -----
func.func @pad_result(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[4] result dim 0 has size 8, padded it has 9}}
  %0 = graph.pad %x {low = array<i64: 1, 0>, high = array<i64: 1, 0>, interior = array<i64: 1, 0>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<8x6xf32>
  return
}

// -----
func.func @concat_dim(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] joins along dim 2 of a result of rank 2}}
  %0 = graph.concat %x, %y {dim = 2 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  return
}

// -----
func.func @concat_other_dim(%x: tensor<4x6xf32>, %y: tensor<5x6xf32>) {
  // expected-error @+1 {{[4] operand 1 of type 'tensor<5x6xf32>' does not fit the result}}
  %0 = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<4x12xf32>
  return
}

// -----
func.func @concat_rank(%x: tensor<4x6xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{[4] operand 1 of type 'tensor<4xf32>' does not fit the result}}
  %0 = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4x7xf32>
  return
}

// -----
func.func @concat_sum(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) {
  // expected-error @+1 {{[5] operands add up to 12 along dim 1, the result has 11}}
  %0 = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x11xf32>
  return
}

// -----
func.func @gather_axis(%x: tensor<4x6xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{[2] has axis 2 and 0 batch dims for a table of rank 2 and indices of rank 1}}
  %0 = graph.gather %x, %i {axis = 2 : i64, batch_dims = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  return
}

// -----
func.func @gather_batch_of_axis(%x: tensor<4x6xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{[2] has axis 0 and 1 batch dims for a table of rank 2 and indices of rank 1}}
  %0 = graph.gather %x, %i {axis = 0 : i64, batch_dims = 1 : i64} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  return
}

// -----
func.func @gather_batch_of_indices(%x: tensor<4x6xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{[2] has axis 1 and 1 batch dims for a table of rank 2 and indices of rank 0}}
  %0 = graph.gather %x, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x6xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----
func.func @gather_batch_size(%x: tensor<4x6xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{[3] batch dim 0 has size 4 in the table and 3 in the indices}}
  %0 = graph.gather %x, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3xf32>
  return
}

// -----
func.func @gather_slices(%x: tensor<4x6xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{[4] has slices of shape [4, 6], expected [3, 6]}}
  %0 = graph.gather %x, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @unfold_dim(%x: tensor<8xf32>) {
  // expected-error @+1 {{[2] has windows along dim 1 of a tensor of rank 1}}
  %0 = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<6x3xf32>
  return
}

// -----
func.func @unfold_size(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] has windows of 0 elements, 1 apart, every 1, from 0 on}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 0 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<9x0xf32>
  return
}

// -----
func.func @unfold_stride(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] has windows of 3 elements, 1 apart, every 0, from 0 on}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 0 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<6x3xf32>
  return
}

// -----
func.func @unfold_dilation(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] has windows of 3 elements, 0 apart, every 1, from 0 on}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 0 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<8x3xf32>
  return
}

// -----
func.func @unfold_low(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] has windows of 3 elements, 1 apart, every 1, from 1 on}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = -1 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<5x3xf32>
  return
}

// -----
func.func @unfold_high(%x: tensor<8xf32>) {
  // expected-error @+1 {{[4] pads dim 0 by a negative number; use slice}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = -1 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<5x3xf32>
  return
}

// -----
func.func @unfold_result(%x: tensor<8xf32>) {
  // expected-error @+1 {{[5] has a result of type 'tensor<7x3xf32>'; dim 0 has 6 windows of 3 elements}}
  %0 = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<8xf32>) -> tensor<7x3xf32>
  return
}

// -----
func.func @fold_scalar(%x: tensor<f32>) {
  // expected-error @+1 {{[2] folds a scalar}}
  %0 = graph.fold %x {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64} : (tensor<f32>) -> tensor<8xf32>
  return
}

// -----
func.func @fold_dim(%x: tensor<6x3xf32>) {
  // expected-error @+1 {{[2] has windows along dim 1 of a tensor of rank 1}}
  %0 = graph.fold %x {dim = 1 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64} : (tensor<6x3xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @fold_other_dim(%x: tensor<6x4x3xf32>) {
  // expected-error @+1 {{[4] has a result of type 'tensor<8x5xf32>'; all dims but 0 are those of 'tensor<6x4x3xf32>' without the last}}
  %0 = graph.fold %x {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64} : (tensor<6x4x3xf32>) -> tensor<8x5xf32>
  return
}

// -----
func.func @softmax_dim(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] dim is 2 for tensors of rank 2}}
  %0 = graph.softmax %x {dim = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @norm_result(%x: tensor<4x6xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>) {
  // expected-error @+1 {{[2] has result 'tensor<6x4xf32>' for an input of type 'tensor<4x6xf32>'; their shapes are equal}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @norm_scale(%x: tensor<4x6xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{[3] scale of shape [4] must have the last dims of the input's [4, 6]}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @norm_bias(%x: tensor<4x6xf32>, %g: tensor<6xf32>, %b: tensor<4x6xf32>) {
  // expected-error @+1 {{[5] scale and bias must have one shape, not [6] and [4, 6]}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @norm_statistics(%x: tensor<4x6xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>) {
  // expected-error @+1 {{[4] statistics must have the dims [4], not [6]}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// -----
func.func @norm_second_statistic(%x: tensor<4x6xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>) {
  // expected-error @+1 {{[4] statistics must have the dims [4], not [6]}}
  %0:3 = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<6xf32>)
  return
}

// -----
func.func @norm_gradient(%x: tensor<4x6xf32>, %dy: tensor<6x4xf32>, %g: tensor<6xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{[2] gradients must have the shape of their values}}
  %0:3 = graph.layer_norm_grad %dy, %x, %g, %m, %m : (tensor<6x4xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// -----
func.func @rms_norm_result(%x: tensor<4x6xf32>, %g: tensor<6xf32>) {
  // expected-error @+1 {{[2] has result 'tensor<6x4xf32>' for an input of type 'tensor<4x6xf32>'; their shapes are equal}}
  %0:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @rms_norm_gradient(%x: tensor<4x6xf32>, %dy: tensor<6x4xf32>, %g: tensor<6xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{[2] gradients must have the shape of their values}}
  %0:2 = graph.rms_norm_grad %dy, %x, %g, %m : (tensor<6x4xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
  return
}

// -----
func.func @loss_axis(%x: tensor<4x6xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[2] axis is 2 for logits of rank 2}}
  %0:2 = graph.cross_entropy %x, %l {axis = 2 : i64, ignore_index = -100 : i64} : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @loss_labels(%x: tensor<4x6xf32>, %l: tensor<6xi64>) {
  // expected-error @+1 {{[3] labels, loss and lse must have the logits' dims [4, 6] without the classes (dim 1), not [6]}}
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x6xf32>, tensor<6xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @loss_rows(%x: tensor<4x6xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[3] labels, loss and lse must have the logits' dims [4, 6] without the classes (dim 1), not [6]}}
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  return
}

// -----
func.func @loss_lse(%x: tensor<4x6xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[3] labels, loss and lse must have the logits' dims [4, 6] without the classes (dim 1), not [6]}}
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<6xf32>)
  return
}

// -----
func.func @loss_gradient(%x: tensor<4x6xf32>, %d: tensor<4xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[4] gradients must have the shape of their values}}
  %0 = graph.cross_entropy_grad %d, %x, %l, %d {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<6x4xf32>
  return
}

// -----
func.func @dropout_result(%x: tensor<4x6xf32>, %s: tensor<i64>, %n: tensor<i64>) {
  // expected-error @+1 {{[4] result has another shape than the input}}
  %0 = graph.dropout %x, %s, %n, %n {rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<6x4xf32>
  return
}

// -----
func.func @dropout_all(%x: tensor<4x6xf32>, %s: tensor<i64>, %n: tensor<i64>) {
  // expected-error @+1 {{[5] rate is 1.000000e+00; it must be in [0, 1)}}
  %0 = graph.dropout %x, %s, %n, %n {rate = 1.0 : f64, rng_id = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @dropout_negative(%x: tensor<4x6xf32>, %s: tensor<i64>, %n: tensor<i64>) {
  // expected-error @+1 {{[5] rate is -5.000000e-01; it must be in [0, 1)}}
  %0 = graph.dropout %x, %s, %n, %n {rate = -0.5 : f64, rng_id = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @dropout_seed(%x: tensor<4x6xf32>, %s: tensor<1xi64>, %n: tensor<i64>) {
  // expected-error @+1 {{[1] seed must be a scalar}}
  %0 = graph.dropout %x, %s, %n, %n {rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<4x6xf32>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @dropout_offsets(%x: tensor<4x6xf32>, %s: tensor<i64>, %n: tensor<i64>) {
  // expected-error @+1 {{[2] on one device offsets and global_shape have an entry per dim, else there are none}}
  %0 = graph.dropout %x, %s, %n, %n, %n {rate = 0.5 : f64, rng_id = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @dropout_global_shape(%x: tensor<4x6xf32>, %s: tensor<i64>, %n: tensor<i64>) {
  // expected-error @+1 {{[2] on one device offsets and global_shape have an entry per dim, else there are none}}
  %0 = graph.dropout %x, %s, %n, %n, %n, %n {rate = 0.5 : f64, rng_id = 1 : i64, global_shape = array<i64: 8>} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return
}

// -----
func.func @microbatches_count(%x: tensor<4x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[1] 'of' operand 0 has dims [4, 3]; dim 0 must be the count, 2}}
  graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>):
    graph.yield sum(%xi) carry() : tensor<3xf32>
  } : (tensor<4x3xf32>) -> (tensor<3xf32>)
  return
}

// -----
func.func @microbatches_zero(%x: tensor<0x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[1] count is 0; it must be positive}}
  graph.microbatches count = 0 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>):
    graph.yield sum(%xi) carry() : tensor<3xf32>
  } : (tensor<0x3xf32>) -> (tensor<3xf32>)
  return
}

// -----
func.func @microbatches_arguments(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[2] the region's arguments must be the index}}
  graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<2x3xf32>):
    graph.yield sum(%xi) carry() : tensor<2x3xf32>
  } : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----
func.func @microbatches_carry(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] carries 1 values in and 0 out}}
  graph.microbatches count = 2 of(%x) carry(%c) {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>, %ci: tensor<3xf32>):
    graph.yield sum(%xi) carry() : tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
  return
}

// -----
func.func @microbatches_carried_type(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] a carried value must keep its type}}
  graph.microbatches count = 2 of(%x) carry(%c) {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>, %ci: tensor<3xf32>):
    graph.yield sum(%xi) carry(%i) : tensor<3xf32>, tensor<i64>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<i64>)
  return
}

// -----
func.func @microbatches_results(%x: tensor<2x3xf32>, %c: tensor<3xf32>) {
  // expected-error @+1 {{[3] the types of the results must be those that graph.yield has}}
  graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>):
    graph.yield sum(%xi) carry() : tensor<3xf32>
  } : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----
func.func @microbatches_split(%x: tensor<2x3xf32, #sharding.layout<#sharding.mesh<["a"=2]>, [{"a"}, {}]>>) {
  // expected-error @+1 {{[1] 'of' operand 0 is split on dim 0, which is the microbatch; split the batch, dim 1}}
  graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%i: tensor<i64>, %xi: tensor<3xf32>):
    graph.yield sum(%xi) carry() : tensor<3xf32>
  } : (tensor<2x3xf32, #sharding.layout<#sharding.mesh<["a"=2]>, [{"a"}, {}]>>) -> tensor<3xf32>
  return
}

// -----
func.func @a_value_that_is_no_tensor() {
  // expected-error @+1 {{is no tensor}}
  graph.constant dense<1.0> : vector<4xf32>
  return
}

// -----
func.func @compared_shapes(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @+1 {{[1] operand 1 has type 'tensor<5xf32>', the result 'tensor<4xi1>'}}
  %0 = graph.compare lt %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xi1>
  return
}

// -----
func.func @converted_shape(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] operand 0 has type 'tensor<4xf32>', the result 'tensor<5xi64>'}}
  %0 = graph.convert %x : (tensor<4xf32>) -> tensor<5xi64>
  return
}

// -----
func.func @joins_nothing() {
  // expected-error @+1 {{[2] needs an operand}}
  %0 = graph.concat {dim = 0 : i64} : () -> tensor<4xf32>
  return
}

// -----
func.func @folds_every_none(%x: tensor<6x3xf32>) {
  // expected-error @+1 {{[3] has windows of 3 elements, 1 apart, every 0, from 0 on}}
  %0 = graph.fold %x {dim = 0 : i64, stride = 0 : i64, dilation = 1 : i64} : (tensor<6x3xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @updates(%i: tensor<3xi64>, %x: tensor<2x6xf32>) {
  // expected-error @+1 {{[4] has slices of shape [2, 6], expected [3, 6]}}
  %0 = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3xi64>, tensor<2x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @norm_gradient_of_scale(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<8xf32>) {
  // expected-error @+1 {{[5] scale and bias must have one shape, not [4] and [8]}}
  %0:3 = graph.layer_norm_grad %x, %x, %g, %m, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>)
  return
}

// -----
func.func @rms_norm_gradient_of_scale(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<8xf32>) {
  // expected-error @+1 {{[5] scale and bias must have one shape, not [4] and [8]}}
  %0:2 = graph.rms_norm_grad %x, %x, %g, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----
func.func @loss_gradient_rows(%x: tensor<4x6xf32>, %d: tensor<6xf32>, %l: tensor<4xi64>, %e: tensor<4xf32>) {
  // expected-error @+1 {{[3] labels, loss and lse must have the logits' dims [4, 6] without the classes (dim 1), not [6]}}
  %0 = graph.cross_entropy_grad %d, %x, %l, %e {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<6xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @loss_gradient_axis(%x: tensor<4x6xf32>, %d: tensor<4xf32>, %l: tensor<4xi64>) {
  // expected-error @+1 {{[2] axis is 2 for logits of rank 2}}
  %0 = graph.cross_entropy_grad %d, %x, %l, %d {axis = 2 : i64, ignore_index = -100 : i64} : (tensor<4xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @layer_norm_gradient_scale(%x: tensor<8x4xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>) {
  // expected-error @+1 {{[3] scale of shape [8] must have the last dims of the input's [8, 4]}}
  %0:3 = graph.layer_norm_grad %x, %x, %g, %m, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----
func.func @layer_norm_gradient_statistics(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{[4] statistics must have the dims [8], not [4]}}
  %0:3 = graph.layer_norm_grad %x, %x, %g, %m, %m : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @rms_norm_scale(%x: tensor<8x4xf32>, %g: tensor<8xf32>) {
  // expected-error @+1 {{[3] scale of shape [8] must have the last dims of the input's [8, 4]}}
  %0:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----
func.func @rms_norm_statistics(%x: tensor<8x4xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{[4] statistics must have the dims [8], not [4]}}
  %0:2 = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @rms_norm_gradient_scale(%x: tensor<8x4xf32>, %g: tensor<8xf32>) {
  // expected-error @+1 {{[3] scale of shape [8] must have the last dims of the input's [8, 4]}}
  %0:2 = graph.rms_norm_grad %x, %x, %g, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----
func.func @rms_norm_gradient_statistics(%x: tensor<8x4xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{[4] statistics must have the dims [8], not [4]}}
  %0:2 = graph.rms_norm_grad %x, %x, %g, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @scatter_axis(%i: tensor<3xi64>, %x: tensor<3x6xf32>) {
  // expected-error @+1 {{[2] has axis 2 and 0 batch dims for a table of rank 2 and indices of rank 1}}
  %0 = graph.scatter_add %i, %x {axis = 2 : i64, batch_dims = 0 : i64} : (tensor<3xi64>, tensor<3x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @scatter_batch(%i: tensor<3x2xi64>, %x: tensor<3x2xf32>) {
  // expected-error @+1 {{[3] batch dim 0 has size 4 in the table and 3 in the indices}}
  %0 = graph.scatter_add %i, %x {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<3x2xi64>, tensor<3x2xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @softmax_gradient_dim(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{[3] dim is 2 for tensors of rank 2}}
  %0 = graph.softmax_grad %x, %x {dim = 2 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----
func.func @uniform_step(%s: tensor<i64>, %n: tensor<1xi64>) {
  // expected-error @+1 {{[1] step must be a scalar}}
  %0 = graph.uniform %s, %n, %s {rng_id = 3 : i64} : (tensor<i64>, tensor<1xi64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----
func.func @uniform_offsets(%s: tensor<i64>) {
  // expected-error @+1 {{[2] on one device offsets and global_shape have an entry per dim, else there are none}}
  %0 = graph.uniform %s, %s, %s, %s {rng_id = 3 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----
func.func @after_another_type(%x: tensor<4xf32>, %t: tensor<2xf32>) {
  // expected-error @+1 {{[1] makes 'tensor<5xf32>' of 'tensor<4xf32>'}}
  %0 = graph.after %x, %t : (tensor<4xf32>) -> tensor<5xf32>, tensor<2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["a"=2]>
func.func @after_without_layout(%x: tensor<4xf32, #sharding.layout<#mesh, [{}]>>, %t: tensor<2xf32>) {
  // expected-error @+1 {{[2] 'tensor<4xf32, #sharding.layout<#sharding.mesh<["a"=2]>, [{}]>>' waits for 'tensor<2xf32>'; both are laid out over one mesh, or none}}
  %0 = graph.after %x, %t : tensor<4xf32, #sharding.layout<#mesh, [{}]>>, tensor<2xf32>
  return
}

// -----
// expected-error @+1 {{[1] of complex numbers has parts of f32 or f64, not 'bf16'}}
graph.parameter @c : tensor<3x2xbf16> at "model.pt2" offset 0 length 12 {complex}

// -----
// expected-error @+1 {{[2] of complex numbers has a last dim of 2, and is 'tensor<2x3xf32>'}}
graph.parameter @c : tensor<2x3xf32> at "model.pt2" offset 0 length 24 {complex}

// -----
// expected-error @+1 {{[2] of complex numbers has a last dim of 2, and is 'tensor<f32>'}}
graph.parameter @c : tensor<f32> at "model.pt2" offset 0 length 4 {complex}

// -----
// expected-error @+1 {{[3] of complex numbers is not stored transposed}}
graph.parameter @c : tensor<3x2xf32> at "model.pt2" offset 0 length 24 {complex, transposed}

// -----
// expected-error @+1 {{[4] of complex numbers is not trained}}
graph.parameter @c : tensor<3x2xf32> at "model.pt2" offset 0 length 24 {complex, trainable}
