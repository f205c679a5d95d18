// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every constraint of dialects/graph/LayoutVerifier.h, by its number. What holds
// of a whole program, parameters at the boundary of the step among it, is in
// test/compiler/sharding/check-partition.mlir; collectives are in
// test/dialects/sharding/movement-errors.mlir.

// L1: either every tensor of an op has a layout, or none.
#mesh = #sharding.mesh<["a"=2]>
func.func @missing_encoding(%x: tensor<4xf32, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<4xf32> {
  // expected-error @+1 {{[L1] result 0 has no layout but operand 0 has; after partitioning every tensor needs one}}
  %y = graph.neg %x : (tensor<4xf32, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @mixed_element_types(%x: tensor<4xf32>, %y: tensor<4xi1>) -> tensor<4xf32> {
  // expected-error @+1 {{'graph.sub' op [2] computes with 'f32' and 'i1'; element types are equal (graph.convert)}}
  %0 = graph.sub %x, %y : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// L1: one mesh.
#one = #sharding.mesh<["a"=2]>
#other = #sharding.mesh<["a"=2, "b"=2]>
func.func @two_meshes(%x: tensor<4xf32, #sharding.layout<#one, [{"a"}]>>) {
  // expected-error @+1 {{[L1] result 0 is laid out over another mesh than operand 0}}
  %y = graph.neg %x : (tensor<4xf32, #sharding.layout<#one, [{"a"}]>>) -> tensor<4xf32, #sharding.layout<#other, [{"a"}]>>
  return
}

// -----

// L2: cuts of an axis divide each other.
#mesh = #sharding.mesh<["a"=6]>
func.func @incompatible_sub_axes(%x: tensor<6x6xf32, #sharding.layout<#mesh, [{"a":(1)2}, {}]>>) {
  // expected-error @+1 {{[L2] result 0 uses {"a":(1)3}, which another operand or result cuts at a coordinate that does not divide it}}
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<6x6xf32, #sharding.layout<#mesh, [{"a":(1)2}, {}]>>) -> tensor<6x6xf32, #sharding.layout<#mesh, [{"a":(1)3}, {}]>>
  return
}

// -----

// L3: a padded dim is not taken apart.
#mesh = #sharding.mesh<["a"=4]>
func.func @padded_reshape(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) {
  // expected-error @+1 {{[L3] operand 0 dim 0 is split over {"a"}, but a padded dim passes only as one whole factor; gather it first, or split it by its most major part}}
  %y = graph.reshape %x : (tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) -> tensor<2x3xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----

// L4: an operand split on a factor where another is not.
#mesh = #sharding.mesh<["tensor"=2]>
func.func @split_and_whole(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>, %w: tensor<6x8xf32, #sharding.layout<#mesh, [{}, {}]>>) {
  // expected-error @+1 {{[L4] operand 1 dim 0 is split over {} where operand 0 dim 1 is split over {"tensor"}; reshard one of them}}
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>, tensor<6x8xf32, #sharding.layout<#mesh, [{}, {}]>>) -> tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
  return
}

// -----

// L5: an axis splits one factor.
#mesh = #sharding.mesh<["a"=2]>
func.func @axis_splits_two_factors(%t: tensor<6x8xf32, #sharding.layout<#mesh, [{"a"}, {}]>>, %i: tensor<4xi64, #sharding.layout<#mesh, [{"a"}]>>) {
  // expected-error @+1 {{[L5] operand 1 dim 0 is split over "a", which splits another, unrelated dim of this op; an axis splits one factor}}
  %y = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<6x8xf32, #sharding.layout<#mesh, [{"a"}, {}]>>, tensor<4xi64, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<4x8xf32, #sharding.layout<#mesh, [{"a"}, {}]>>
  return
}

// -----

// L6: a composite still split.
#mesh = #sharding.mesh<["a"=2]>
func.func @composite_split(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) {
  // expected-error @+1 {{[L6] operand 0 dim 1 is laid out as {"a"}, but this dim is composite; decompose the op (decompose-composites) or gather the dim}}
  %y = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) -> tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>
  return
}

// -----

// L6: a replicated factor.
#mesh = #sharding.mesh<["a"=2]>
func.func @sliced_dim_split(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"}]>>) {
  // expected-error @+1 {{[L6] operand 0 dim 0 is laid out as {"a"}, but this dim is replicated; gather it first}}
  %y = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 2>, strides = array<i64: 1>} : (tensor<6xf32, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<2xf32, #sharding.layout<#mesh, [{"a"}]>>
  return
}

// -----

// L7: the product of two partials.
#mesh = #sharding.mesh<["a"=2]>
func.func @product_of_partials(%x: tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>, %y: tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>) {
  // expected-error @+1 {{[L7] operands 0 and 1 are both partial sums over "a"; only one at a time may be: reduce the other first}}
  %z = graph.mul %x, %y : tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
  return
}

// -----

// L7: a nonlinear function of a partial.
#mesh = #sharding.mesh<["a"=2]>
func.func @nonlinear(%x: tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>) {
  // expected-error @+1 {{[L7] operand 0 is a partial sum over "a", and this op of a partial sum is not the partial of the op; reduce it first (sharding.all_reduce or sharding.reduce_scatter)}}
  %y = graph.exp %x : tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
  return
}

// -----

// L7: a partial and a replicated summand.
#mesh = #sharding.mesh<["a"=2]>
func.func @bias_added_to_each_part(%x: tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>, %b: tensor<4xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{[L7] operand 0 is a partial sum over "a" but another operand is not; make both partial (sharding.to_partial) or reduce this one first}}
  %y = graph.add %x, %b : (tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>, tensor<4xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
  return
}

// -----

// L7: an operand partial over an axis that splits another.
#mesh = #sharding.mesh<["a"=2]>
func.func @partial_and_split(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"a"}>>, %w: tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) {
  // expected-error @+1 {{[L7] operand 0 is a partial sum over "a", which splits another operand; reduce it first}}
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"a"}>>, tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) -> tensor<4x8xf32, #sharding.layout<#mesh, [{}, {"a"}]>>
  return
}

// -----

// L8: a missing reduction.
#mesh = #sharding.mesh<["a"=2]>
func.func @missing_reduction(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>, %w: tensor<6x8xf32, #sharding.layout<#mesh, [{"a"}, {}]>>) {
  // expected-error @+1 {{[L8] result 0 lacks 'partial = sum {"a"}': each device has only a part of the reduction}}
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>, tensor<6x8xf32, #sharding.layout<#mesh, [{"a"}, {}]>>) -> tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----

// L8: a doubled reduction.
#mesh = #sharding.mesh<["a"=2]>
func.func @doubled_reduction(%x: tensor<4xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{[L8] result 0 is typed as a partial sum over "a", but every device computes the whole of it; it would be reduced twice}}
  %y = graph.neg %x : (tensor<4xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
  return
}

// -----

// L8: a partial of the wrong kind.
#mesh = #sharding.mesh<["a"=2]>
func.func @wrong_kind(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) {
  // expected-error @+1 {{[L8] result 0 is a partial max over "a", not a partial sum}}
  %y = graph.reduce max %x over [1] : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
  return
}

// -----

// L9: a contraction over padding without the fill.
#mesh = #sharding.mesh<["a"=4]>
func.func @contracted_padding(%x: tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"} pad 8 fill zero]>>, %w: tensor<6x8xf32, #sharding.layout<#mesh, [{"a"} pad 8, {}]>>) {
  // expected-error @+1 {{[L9] operand 1 dim 0 is reduced over its padding, which must hold 'fill zero' (sharding.fill)}}
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"} pad 8 fill zero]>>, tensor<6x8xf32, #sharding.layout<#mesh, [{"a"} pad 8, {}]>>) -> tensor<4x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"a"}>>
  return
}

// -----

// L9: a maximum over padding that holds zeros.
#mesh = #sharding.mesh<["a"=4]>
func.func @maximum_of_zeros(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8 fill zero]>>) {
  // expected-error @+1 {{[L9] operand 0 dim 0 is reduced over its padding, which must hold 'fill neg_inf' (sharding.fill)}}
  %y = graph.reduce max %x over [0] : (tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8 fill zero]>>) -> tensor<f32, #sharding.layout<#mesh, [], partial = max {"a"}>>
  return
}

// -----

// L9: one padded extent.
#mesh = #sharding.mesh<["a"=4]>
func.func @two_extents(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) {
  // expected-error @+1 {{[L9] result 0 dim 0 has extent 12 where operand 0 dim 0 has extent 8; a factor has one padded extent (sharding.repad)}}
  %y = graph.neg %x : (tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) -> tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 12]>>
  return
}

// -----

// L10: what an op leaves in padding is undefined.
#mesh = #sharding.mesh<["a"=4]>
func.func @claimed_fill(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8 fill zero]>>) {
  // expected-error @+1 {{[L10] result 0 dim 0 claims 'fill zero'; what an op leaves in padding is undefined (sharding.fill)}}
  %y = graph.neg %x : tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8 fill zero]>>
  return
}

// -----

// L11: operands at two places.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @two_places(%x: tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 0}>>, %y: tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>) {
  // expected-error @+1 {{[L11] operand 1 lives at another place than operand 0, and no op moves a value to another place}}
  %z = graph.mul %x, %y : (tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 0}>>, tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 0}>>
  return
}

// -----

// L11: a result away from its operands.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @result_elsewhere(%x: tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 0}>>) {
  // expected-error @+1 {{[L11] result 0 must live where the operands do (operand 0)}}
  %y = graph.neg %x : (tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 0}>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 1}>>
  return
}

// -----

// L6: a halo factor that is not split has no padding.
#mesh = #sharding.mesh<["a"=2]>
func.func @padded_halo(%x: tensor<8xf32, #sharding.layout<#mesh, [{} pad 10]>>) {
  // expected-error @+1 {{[L6] operand 0 dim 0 is laid out as {} with padding, but this dim is halo; remove the padding (sharding.repad), or split it}}
  %y = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<8xf32, #sharding.layout<#mesh, [{} pad 10]>>) -> tensor<8x3xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----
// L9: blocks of windows and of what they slide over have the stride's ratio.
#mesh = #sharding.mesh<["a"=2]>
func.func @halo_extents(%x: tensor<9xf32, #sharding.layout<#mesh, [{"a"} pad 10 halo 1:0]>>) {
  // expected-error @+1 {{[L9] result 0 dim 0 has extent 6 where operand 0 dim 0 has extent 10; their blocks must be in the ratio 1:2 (sharding.repad)}}
  %y = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<9xf32, #sharding.layout<#mesh, [{"a"} pad 10 halo 1:0]>>) -> tensor<5x3xf32, #sharding.layout<#mesh, [{"a"} pad 6, {}]>>
  return
}

// -----
// L12: borders where they are needed.
#mesh = #sharding.mesh<["a"=2]>
func.func @no_borders(%x: tensor<8xf32, #sharding.layout<#mesh, [{"a"}]>>) {
  // expected-error @+1 {{[L12] operand 0 dim 0 has no borders where the op reads 'halo 1:1' (sharding.halo)}}
  %y = graph.unfold %x {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<8xf32, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<8x3xf32, #sharding.layout<#mesh, [{"a"}, {}]>>
  return
}

// -----
#mesh = #sharding.mesh<["a"=2]>
func.func @sums_lost(%x: tensor<8x3xf32, #sharding.layout<#mesh, [{"a"}, {}]>>) {
  // expected-error @+1 {{[L12] result 0 dim 0 has no borders where the op gives 'spill 1:1'}}
  %y = graph.fold %x {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64} : (tensor<8x3xf32, #sharding.layout<#mesh, [{"a"}, {}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"a"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["a"=2]>
func.func @sums_read(%x: tensor<4xf32, #sharding.layout<#mesh, [{"a"} spill 1:1]>>) {
  // expected-error @+1 {{[L12] operand 0 holds sums for its neighbours on dim 0, which this op does not read (sharding.halo_add)}}
  %y = graph.neg %x : tensor<4xf32, #sharding.layout<#mesh, [{"a"} spill 1:1]>>
  return
}

// -----
// L12: halos only where they are read.
#mesh = #sharding.mesh<["a"=2]>
func.func @halo(%x: tensor<4xf32, #sharding.layout<#mesh, [{"a"} halo 1:1]>>) {
  // expected-error @+1 {{[L12] operand 0 has a halo on dim 0, which this op does not read}}
  %y = graph.neg %x : tensor<4xf32, #sharding.layout<#mesh, [{"a"} halo 1:1]>>
  return
}

// -----

// L3: blocks that straddle the dims that a reshape makes.
#mesh = #sharding.mesh<["a"=4]>
func.func @straddling_reshape(%x: tensor<24xf32, #sharding.layout<#mesh, [{"a"}]>>) {
  // expected-error @+1 {{[L3] operand 0 dim 0 is split over {"a"}, but its blocks do not follow the dims it is made of; gather it first, or split it by its most major part}}
  %y = graph.reshape %x : (tensor<24xf32, #sharding.layout<#mesh, [{"a"}]>>) -> tensor<6x4xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----

// L6: a composite that is padded on a device that has all of it.
#mesh = #sharding.mesh<["a"=2]>
func.func @padded_composite(%x: tensor<4x5xf32, #sharding.layout<#mesh, [{}, {} pad 6]>>) {
  // expected-error @+1 {{[L6] operand 0 dim 1 is laid out as {} with padding, but this dim is composite}}
  %y = graph.softmax %x {dim = 1 : i64} : (tensor<4x5xf32, #sharding.layout<#mesh, [{}, {} pad 6]>>) -> tensor<4x5xf32, #sharding.layout<#mesh, [{}, {} pad 6]>>
  return
}

// -----

// L7: a norm of a partial.
#mesh = #sharding.mesh<["a"=2]>
!part = tensor<4x6xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"a"}>>
!scale = tensor<6xf32, #sharding.layout<#mesh, [{}]>>
!rows = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
func.func @norm_of_a_partial(%x: !part, %g: !scale) {
  // expected-error @+1 {{'graph.layer_norm' op [L7] operand 0 is a partial sum over "a", and this op of a partial sum is not the partial of the op; reduce it first}}
  %y, %m, %r = graph.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (!part, !scale, !scale) -> (!part, !rows, !rows)
  return
}

// -----

// L7: two kinds of partial.
#mesh = #sharding.mesh<["a"=2]>
!sum = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
!max = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = max {"a"}>>
func.func @two_kinds(%x: !sum, %y: !max) {
  // expected-error @+1 {{[L7] operand 1 is a partial max over "a" where operand 0 is a partial sum; reduce one of them first}}
  %z = graph.add %x, %y : (!sum, !max) -> !sum
  return
}

// -----

// L9: a sum over padding, of the op that reduces.
#mesh = #sharding.mesh<["a"=4]>
func.func @summed_padding(%x: tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) {
  // expected-error @+1 {{'graph.reduce' op [L9] operand 0 dim 0 is reduced over its padding, which must hold 'fill zero' (sharding.fill)}}
  %y = graph.reduce sum %x over [0] : (tensor<6xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>) -> tensor<f32, #sharding.layout<#mesh, [], partial = sum {"a"}>>
  return
}

// -----

func.func @scatter_into_another_type(%i: tensor<3xi64>, %x: tensor<3x2xf32>, %t: tensor<5x3xf32>) {
  // expected-error @+1 {{'graph.scatter_add' op [5] adds to 'tensor<5x3xf32>', but gives 'tensor<5x2xf32>'}}
  %y = graph.scatter_add %i, %x, %t {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3xi64>, tensor<3x2xf32>, tensor<5x3xf32>) -> tensor<5x2xf32>
  return
}

// -----

// Its index dims may be split, and then the result is partial: what it begins with would be added once for each part.
#mesh = #sharding.mesh<["a"=2]>
!row = tensor<4xi64, #sharding.layout<#mesh, [{}]>>
!table = tensor<4x2xf32, #sharding.layout<#mesh, [{}, {}]>>
func.func @scatter_into_with_layouts(%i: !row, %x: !table, %t: !table) {
  // expected-error @+1 {{'graph.scatter_add' op [6] begins with zeros where it has a layout; use graph.add}}
  %y = graph.scatter_add %i, %x, %t {axis = 0 : i64, batch_dims = 0 : i64} : (!row, !table, !table) -> !table
  return
}

// -----

// What an op demands of itself comes first: rules are of ops that keep that.
#mesh = #sharding.mesh<["a"=2]>
func.func @a_rule_is_of_an_op_that_keeps_its_constraints(%x: tensor<f32, #sharding.layout<#mesh, []>>) {
  // expected-error @+1 {{[2] has 2 dims for an operand of 0}}
  %0 = graph.broadcast %x {dims = array<i64: 0, 1>} : (tensor<f32, #sharding.layout<#mesh, []>>) -> tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}
