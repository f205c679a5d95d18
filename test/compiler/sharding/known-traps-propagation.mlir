// RUN: polyrank-opt %s -split-input-file --propagate-layouts --decompose-composites --plan-reshards --check-partition | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --propagate-layouts --decompose-composites --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Programs on which other propagations crash, lose what was said, or gather what
// should have stayed where it is.

// MLIR 22 leaves a matmul with conflicting constraints without layouts and then
// crashes. Here the less important one gives way, and the collective says to whom.
// VALUE: @conflicting_constraints distributed
#mesh = #sharding.mesh<["a"=2]>
// CHECK-LABEL: @conflicting_constraints
// CHECK: sharding.{{.*}}constraint = "{{[xw]}}=[
// CHECK: graph.matmul
module attributes {sharding.mesh = #mesh} {
func.func @conflicting_constraints(
    %x: tensor<4x6xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}, {}]> from "x=[a,-]">},
    %w: tensor<6x8xf32> {graph.role = #graph.input<"w">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"a"}]> from "w=[-,a]">})
    -> (tensor<4x8xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// XLA 4062: of two operands that disagree the small one moves, never both.
#mesh = #sharding.mesh<["a"=4]>
// VALUE: @the_small_operand_moves distributed
// CHECK-LABEL: @the_small_operand_moves
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x64xf32
// CHECK-NOT: sharding.{{[a-z_]+}} %[[X]]
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @the_small_operand_moves(
    %x: tensor<64x64xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}, {}]>>},
    %w: tensor<64x4xf32> {graph.role = #graph.input<"w">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}, {}]> priority 1>})
    -> (tensor<64x4xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<64x64xf32>, tensor<64x4xf32>) -> tensor<64x4xf32>
  return %y : tensor<64x4xf32>
}
}

// -----

// MLIR's shard and GSPMD's users: two unfinished sums are added before they are
// reduced, once.
#mesh = #sharding.mesh<["a"=2]>
// VALUE: @two_sums_are_reduced_once distributed
// CHECK-LABEL: @two_sums_are_reduced_once
// CHECK: graph.add
// CHECK-SAME: partial = sum {"a"}
// CHECK-COUNT-1: sharding.{{all_reduce|reduce_scatter}}
// CHECK-NOT: sharding.{{all_reduce|reduce_scatter}}
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @two_sums_are_reduced_once(
    %x: tensor<4x6xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"a"}]>>},
    %v: tensor<6x8xf32> {graph.role = #graph.parameter<@v>}, %w: tensor<6x8xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<6x8xf32> {graph.role = #graph.next<1>}, tensor<6x8xf32> {graph.role = #graph.next<2>}, tensor<4x8xf32> {graph.role = #graph.output<"y">}) {
  %p = graph.matmul %x, %v batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %q = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = graph.add %p, %q : tensor<4x8xf32>
  return %v, %w, %y : tensor<6x8xf32>, tensor<6x8xf32>, tensor<4x8xf32>
}
}

// -----

// PyTorch/XLA 8883: a gradient is split as its parameter is, and never whole.
#mesh = #sharding.mesh<["a"=2]>
// VALUE: @a_gradient_is_split_like_its_parameter distributed
// CHECK-LABEL: @a_gradient_is_split_like_its_parameter
// CHECK: graph.matmul
// CHECK-SAME: -> tensor<6x8xf32, #sharding.layout<#mesh, [{}, {"a"}]>>
// CHECK-NOT: sharding.all_gather
// CHECK: graph.sub
module attributes {sharding.mesh = #mesh} {
func.func @a_gradient_is_split_like_its_parameter(
    %w: tensor<6x8xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"a"}]>>},
    %x: tensor<4x6xf32> {graph.role = #graph.input<"x">}, %dy: tensor<4x8xf32> {graph.role = #graph.input<"dy">})
    -> (tensor<6x8xf32> {graph.role = #graph.next<0>}) {
  %dw = graph.matmul %x, %dy batch [] x [] contract [0] x [0] : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %new = graph.sub %w, %dw : tensor<6x8xf32>
  return %new : tensor<6x8xf32>
}
}

// -----

// Ten rows on four devices through a matmul and a sum: nothing is lost, and
// padding is not summed (MLIR 22 drops two rows; Shardy rounds the split away).
#mesh = #sharding.mesh<["a"=4]>
// VALUE: @ten_rows_on_four_devices distributed
// CHECK-LABEL: @ten_rows_on_four_devices
// CHECK: fill zero
// CHECK: graph.reduce sum
module attributes {sharding.mesh = #mesh} {
func.func @ten_rows_on_four_devices(
    %w: tensor<10x6xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"} pad 12 fill zero, {}]>>},
    %x: tensor<6x3xf32> {graph.role = #graph.input<"x">})
    -> (tensor<10x6xf32> {graph.role = #graph.next<0>}, tensor<3xf32> {graph.role = #graph.output<"s">}) {
  %y = graph.matmul %w, %x batch [] x [] contract [1] x [0] : (tensor<10x6xf32>, tensor<6x3xf32>) -> tensor<10x3xf32>
  %e = graph.exp %y : tensor<10x3xf32>
  %s = graph.reduce sum %e over [0] : (tensor<10x3xf32>) -> tensor<3xf32>
  return %w, %s : tensor<10x6xf32>, tensor<3xf32>
}
}

// -----

// The maximum of negative numbers on uneven shards: zeros of padding would win.
#mesh = #sharding.mesh<["a"=4]>
// VALUE: @the_maximum_of_negative_numbers_on_uneven_shards distributed
// CHECK-LABEL: @the_maximum_of_negative_numbers_on_uneven_shards
// CHECK: graph.reduce max
module attributes {sharding.mesh = #mesh} {
func.func @the_maximum_of_negative_numbers_on_uneven_shards(
    %w: tensor<6xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"} pad 8 fill zero]>>})
    -> (tensor<6xf32> {graph.role = #graph.next<0>}, tensor<f32> {graph.role = #graph.output<"m">}) {
  %e = graph.exp %w : tensor<6xf32>
  %n = graph.neg %e : tensor<6xf32>
  %m = graph.reduce max %n over [0] : (tensor<6xf32>) -> tensor<f32>
  return %w, %m : tensor<6xf32>, tensor<f32>
}
}

// -----

// MLIR 22 has no layout for a softmax, Shardy none for its split dim: it is taken
// apart into a maximum and a sum over the devices, and no row is gathered.
#mesh = #sharding.mesh<["a"=2]>
// VALUE: @a_softmax_over_a_split_dim distributed
// CHECK-LABEL: @a_softmax_over_a_split_dim
// CHECK-NOT: sharding.all_gather
// CHECK: partial = max {"a"}
// CHECK-NOT: sharding.all_gather
// CHECK: partial = sum {"a"}
// CHECK-NOT: sharding.all_gather
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @a_softmax_over_a_split_dim(
    %x: tensor<4x64xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"a"}]>>})
    -> (tensor<4x64xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.softmax %x {dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
}

// -----

// MLIR 22 cannot lay out a convolution ("multiple loop indices in a dimension"):
// windows and a product, split over batch and channels.
#mesh = #sharding.mesh<["a"=2, "b"=2]>
// VALUE: @a_convolution_over_batch_and_channels distributed
// CHECK-LABEL: @a_convolution_over_batch_and_channels
// CHECK: graph.matmul
// CHECK-SAME: [{"a"}, {}, {"b"}]
// CHECK-NOT: sharding.all_gather
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @a_convolution_over_batch_and_channels(
    %w: tensor<4x3x3xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"b"}, {}, {}]>>},
    %x: tensor<2x3x9xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}, {}, {}]>>})
    -> (tensor<4x3x3xf32> {graph.role = #graph.next<0>}, tensor<2x4x4xf32> {graph.role = #graph.output<"y">}) {
  %u = graph.unfold %x {dim = 2 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64} : (tensor<2x3x9xf32>) -> tensor<2x3x4x3xf32>
  %p = graph.matmul %u, %w batch [] x [] contract [1, 3] x [1, 2] : (tensor<2x3x4x3xf32>, tensor<4x3x3xf32>) -> tensor<2x4x4xf32>
  %y = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %w, %y : tensor<4x3x3xf32>, tensor<2x4x4xf32>
}
}

// -----

// Shardy: factors of a reshape that do not converge ([6, 4] and [4, 6]) are not
// shared; the split that cannot pass is gathered, not lost.
#mesh = #sharding.mesh<["a"=2]>
// VALUE: @a_reshape_whose_factors_do_not_converge distributed
// CHECK-LABEL: @a_reshape_whose_factors_do_not_converge
// CHECK: graph.reshape
module attributes {sharding.mesh = #mesh} {
func.func @a_reshape_whose_factors_do_not_converge(
    %x: tensor<3x4xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"a"}]>>})
    -> (tensor<4x3xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.reshape %x : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
}

// -----

// The batch dims of a lookup pass (Shardy has to rewrite them first), and the
// split table gives masked parts: no table is gathered.
#mesh = #sharding.mesh<["a"=2, "b"=2]>
// VALUE: @a_lookup_in_a_split_table distributed
// CHECK-LABEL: @a_lookup_in_a_split_table
// CHECK-NOT: sharding.all_gather
// CHECK: graph.gather
// CHECK-SAME: partial = sum {"b"}
// CHECK-NOT: sharding.all_gather
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @a_lookup_in_a_split_table(
    %t: tensor<4x64x8xf32> {graph.role = #graph.parameter<@t>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"a"}, {"b"}, {}]>>},
    %i: tensor<4x3xi64> {graph.role = #graph.input<"i">})
    -> (tensor<4x64x8xf32> {graph.role = #graph.next<0>}, tensor<4x3x8xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.gather %t, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x64x8xf32>, tensor<4x3xi64>) -> tensor<4x3x8xf32>
  return %t, %y : tensor<4x64x8xf32>, tensor<4x3x8xf32>
}
}

// -----

// PyTorch/XLA 5760, DeepSpeed 6463: accumulation reduces once a step, not once a
// microbatch.
#mesh = #sharding.mesh<["data"=2]>
// VALUE: @accumulation_reduces_once distributed
// CHECK-LABEL: @accumulation_reduces_once
// CHECK: graph.microbatches
// CHECK-NOT: sharding.all_reduce
// CHECK: graph.yield
// CHECK: sharding.all_reduce
// CHECK-NOT: sharding.all_reduce
// CHECK: return
module attributes {sharding.mesh = #mesh} {
func.func @accumulation_reduces_once(
    %w: tensor<3xf32> {graph.role = #graph.parameter<@w>},
    %x: tensor<4x2x3xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"data"}, {}]>>})
    -> (tensor<3xf32> {graph.role = #graph.next<0>}) {
  %dw = graph.microbatches count = 4 of(%x) carry() {
  ^bb0(%index: tensor<i64>, %xi: tensor<2x3xf32>):
    %s = graph.reduce sum %xi over [0] : (tensor<2x3xf32>) -> tensor<3xf32>
    graph.yield sum(%s) carry() : tensor<3xf32>
  } : (tensor<4x2x3xf32>) -> tensor<3xf32>
  %new = graph.sub %w, %dw : tensor<3xf32>
  return %new : tensor<3xf32>
}
}

// -----

// The width of attention's values splits its result and not the logarithm of the
// sums, which every device has whole: it is no partial sum.
#mesh = #sharding.mesh<["a"=2]>
// VALUE: @the_width_of_values_is_split distributed
// CHECK-LABEL: @the_width_of_values_is_split
// CHECK: graph.attention
// CHECK-SAME: tensor<2x2x4xf32, #sharding.layout<#mesh, [{}, {}, {}]>>)
module attributes {sharding.mesh = #mesh} {
func.func @the_width_of_values_is_split(
    %q: tensor<2x2x4x3xf32> {graph.role = #graph.input<"q">}, %k: tensor<2x2x4x3xf32> {graph.role = #graph.input<"k">},
    %v: tensor<2x2x4x2xf32> {graph.role = #graph.input<"v">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {}, {}, {"a"}]>>})
    -> (tensor<2x2x4x2xf32> {graph.role = #graph.output<"y">}, tensor<2x2x4xf32> {graph.role = #graph.output<"lse">}) {
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = false} : (tensor<2x2x4x3xf32>, tensor<2x2x4x3xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
  return %y, %lse : tensor<2x2x4x2xf32>, tensor<2x2x4xf32>
}
}
