// RUN: polyrank-opt %s -split-input-file -verify-diagnostics --check-partition
// Programs that other sharding systems compute wrongly, or replicate in silence:
// errors here, each naming the op and the way out.

// Shardy: a pass that drops an axis of a partial makes wrong numbers.
#mesh = #sharding.mesh<["a"=2]>
!partial = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
func.func @an_unfinished_sum_is_not_a_sum(%x: !whole) {
  %p = sharding.to_partial %x : (!whole) -> !partial
  // expected-error @+1 {{result 0 lacks 'partial = sum {"a"}': each device has only a part of the reduction}}
  %y = graph.neg %p : (!partial) -> !whole
  return
}

// -----

// DTensor: a norm of a partial gradient.
#mesh = #sharding.mesh<["a"=2]>
!partial = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
func.func @a_norm_of_a_partial(%p: !partial) {
  // expected-error @+1 {{operands 0 and 1 are both partial sums over "a"; only one at a time may be: reduce the other first}}
  %y = graph.mul %p, %p : !partial
  return
}

// -----

// A bias that every device adds to its part of a sum is added twice.
#mesh = #sharding.mesh<["a"=2]>
!partial = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}>>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
func.func @a_bias_added_by_every_device(%p: !partial, %b: !whole) {
  // expected-error @+1 {{operand 0 is a partial sum over "a" but another operand is not; make both partial (sharding.to_partial) or reduce this one first}}
  %y = graph.add %p, %b : (!partial, !whole) -> !partial
  return
}

// -----

// PyTorch 168134: a maximum that sees the padding of uneven shards.
#mesh = #sharding.mesh<["a"=4]>
!rows = tensor<6x3xf32, #sharding.layout<#mesh, [{"a"} pad 8 fill zero, {}]>>
!max = tensor<3xf32, #sharding.layout<#mesh, [{}], partial = max {"a"}>>
func.func @a_maximum_over_zeros_of_padding(%x: !rows) {
  // expected-error @+1 {{operand 0 dim 0 is reduced over its padding, which must hold 'fill neg_inf' (sharding.fill)}}
  %y = graph.reduce max %x over [0] : (!rows) -> !max
  return
}

// -----

// tt-mlir 6756: the partial of a gather over an axis that splits its result.
#mesh = #sharding.mesh<["a"=2]>
!table = tensor<6x4xf32, #sharding.layout<#mesh, [{"a"}, {}]>>
!ids = tensor<4xi64, #sharding.layout<#mesh, [{"a"}]>>
!rows = tensor<4x4xf32, #sharding.layout<#mesh, [{"a"}, {}]>>
func.func @one_axis_splits_the_table_and_the_indices(%t: !table, %i: !ids) {
  // expected-error @+1 {{operand 1 dim 0 is split over "a", which splits another, unrelated dim of this op; an axis splits one factor}}
  %y = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 : i64} : (!table, !ids) -> !rows
  return
}

// -----

// DTensor's strided shards: blocks of columns are no blocks of the flat tensor.
#mesh = #sharding.mesh<["a"=2]>
!columns = tensor<4x6xf32, #sharding.layout<#mesh, [{}, {"a"}]>>
!flat = tensor<24xf32, #sharding.layout<#mesh, [{"a"}]>>
func.func @columns_are_no_blocks_of_the_flat_tensor(%x: !columns) {
  // expected-error @+1 {{is split over}}
  %y = graph.reshape %x : (!columns) -> !flat
  return
}

// -----

// An all_reduce over one axis does not finish a sum over two.
#mesh = #sharding.mesh<["a"=2, "b"=2]>
!partial = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"a", "b"}>>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
!half = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"b"}>>
func.func @half_a_reduction(%p: !partial) {
  %h = sharding.all_reduce %p : (!partial) -> !half
  // expected-error @+1 {{result 0 lacks 'partial = sum {"b"}'}}
  %y = graph.neg %h : (!half) -> !whole
  return
}

// -----

// A value without a layout among others is not taken as replicated in silence.
#mesh = #sharding.mesh<["a"=2]>
// expected-error @+1 {{argument 0 of type 'tensor<4xf32>' has no layout; after partitioning every tensor needs one (propagate-layouts writes them)}}
func.func @a_value_without_a_layout(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
