// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every numbered constraint of the rank ops.

#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{[axes 1] axes "data" and "data" overlap}}
func.func private @axes() attributes {axes = #rank.axes<#mesh, {"data", "data"}>}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_reduce(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<2xf32>'; it must be 'tensor<4xf32>'}}
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @collective_arity(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has 2 operands and 1 results}}
  %0 = rank.broadcast %x, %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @members(%x: tensor<4xf32>) {
  // expected-error @+1 {{[reason 2] why has 2 members, and the op 1 operands; each has its reason}}
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 {why = #sharding.reason<members = [<user = "a">, <user = "b">]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
// expected-error @+1 {{[arena 1] an arena has the number -64}}
func.func private @arena_size() attributes {arena = #rank.arena<shared = 64, private = -64>}

// -----
// expected-error @+1 {{[arena 2] 128 live bytes do not lie in regions of 96}}
func.func private @arena_bound() attributes {arena = #rank.arena<shared = 64, private = 32, lower_bound = 128>}

// -----
// expected-error @+1 {{[arena 3] rank.arena is a #rank.arena, not {shared = 64 : i64}}}
func.func private @arena() attributes {rank.arena = {shared = 64 : i64}}

// -----
// expected-error @+1 {{[arena 3] the rank dialect has no attribute 'rank.aren'}}
func.func private @attribute() attributes {rank.aren = 1 : i64}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @reduce_scatter(%x: tensor<3xf32>) {
  // expected-error @+1 {{[1] dim 0 of size 3 has no equal blocks for a group of 2}}
  %0 = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 1 : (tensor<3xf32>) -> tensor<1xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_gather(%x: tensor<3xf32>) {
  // expected-error @+1 {{[1] dim 1 is not a dim of 'tensor<3xf32>'}}
  %0 = rank.all_gather %x dims [1] over <#mesh, {"data"}> id 1 : (tensor<3xf32>) -> tensor<6xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_to_all(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] splits and concatenates the same dim 1}}
  %0 = rank.all_to_all %x split [1] concat [1] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @permute(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] source 2 is not in a group of 2}}
  %0 = rank.permute %x from [0, 2] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @permute_twice(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] takes from member 1 twice}}
  %0 = rank.permute %x from [1, 1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @slice(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result is 'tensor<4xf32>'; it must be 'tensor<2xf32>'}}
  %0 = rank.slice %x dim 0 over <#mesh, {"data"}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @view_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] changes the element type}}
  %0 = rank.view %x offset 0 : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----
func.func @view_range(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] elements [2, 6) lie outside the operand's 4}}
  %0 = rank.view %x offset 2 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @gemm_of_integers(%x: tensor<4x4xi32>) {
  // expected-error @+1 {{[1] multiplies 'i32' by 'i32'; both are of one float type}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
  return
}

// -----
func.func @gemm_of_two_types(%x: tensor<4x4xf32>, %y: tensor<4x4xf64>) {
  // expected-error @+1 {{[1] multiplies 'f32' by 'f64'; both are of one float type}}
  %0 = rank.gemm %x at [0, 4, 1], %y at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf64>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_narrow_accumulator(%x: tensor<4x4xf64>) {
  // expected-error @+1 {{[1] adds products of 'f64' in 'f32', which is no wider type}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {accumulator = f32} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return
}

// -----
func.func @gemm_result_type(%x: tensor<4x4xbf16>) {
  // expected-error @+1 {{[1] gives 'f64'; what is multiplied is 'bf16', and added in 'f32'}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {accumulator = f32} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf64>
  return
}

// -----
func.func @gemm_strides(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[2] strides 2 and 2 of a}}
  %0 = rank.gemm %x at [0, 2, 2], %x at [0, 4, 1] sizes [2, 4, 2] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return
}

// -----
func.func @gemm_range(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[3] reads element 16 of b, which has 16}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [1, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_gap(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[4] a loop of 4 writes the result with stride 8 where 4 elements are covered}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 8 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_part(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[4] writes 16 of 32 elements}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return
}

// -----
func.func @gemm_addend(%x: tensor<4x4xf32>, %c: tensor<16xf32>) {
  // expected-error @+1 {{[5] addend is 'tensor<16xf32>', the result 'tensor<4x4xf32>'}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] add %c sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_batch(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[6] batch has 3 numbers}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [1, 2, 3] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_not_grouped(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[7] has groups and is not grouped}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 0] : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_no_groups(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>) {
  // expected-error @+1 {{[7] has no ids for its one batch dim}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] sizes [4, 8, 6] row 8 batch [2, 0, 48, 0] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_two_batch_dims(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[7] has no ids for its one batch dim}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 0, 1, 0, 0, 0] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_more_ids(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<3xi64>) {
  // expected-error @+1 {{[7] has no ids for its one batch dim}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 0] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<3xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_narrow_ids(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi32>) {
  // expected-error @+1 {{[7] has no ids for its one batch dim}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 0] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi32>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_fewer_rows(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<3xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[7] has no group for each row}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 0] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<3xi64>, tensor<2xi64>) -> tensor<4x8xf32>
  return
}

// -----
func.func @gemm_of_inner_groups(%x: tensor<4x6xf32>, %w: tensor<4x8xf32>, %g: tensor<6xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[7] has no group for each element of the inner dim}}
  %0 = rank.gemm %x at [0, 1, 6], %w at [0, 8, 1] groups %g ids %e sizes [6, 8, 4] row 8 batch [2, 0, 0, 48] {grouped = #rank.grouped<inner>} : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<6xi64>, tensor<2xi64>) -> tensor<2x6x8xf32>
  return
}

// -----
func.func @gemm_rows_apart(%x: tensor<4x6xf32>, %w: tensor<2x6x8xf32>, %g: tensor<4xi64>, %e: tensor<2xi64>) {
  // expected-error @+1 {{[4] a grouped row is in one place, whatever its group}}
  %0 = rank.gemm %x at [0, 6, 1], %w at [0, 8, 1] groups %g ids %e sizes [4, 8, 6] row 8 batch [2, 0, 48, 32] {grouped = #rank.grouped<rows>} : (tensor<4x6xf32>, tensor<2x6x8xf32>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x4x8xf32>
  return
}

// -----
// expected-error @+1 {{[1] must end in a return of its result types}}
rank.kernel @kernel_return(%x: tensor<4xf32>) -> tensor<2xf32> {
  rank.return %x : tensor<4xf32>
}

// -----
// expected-error @+1 {{[2] argument 0 has no room for a result of type 'tensor<4xf32>'}}
rank.kernel @kernel_in_place(%x: tensor<2xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %y : tensor<4xf32>
}

// -----
func.func @launch(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] no kernel is called @missing}}
  rank.launch @missing(%x) : (tensor<4xf32>) -> ()
  return
}

// -----
func.func @microbatches_buffers(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[1] has 2 buffers for 1 results}}
  %0 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  }
  } {buffers = [#rank.buffer<private, 0, 32>, #rank.buffer<private, 64, 32>]} : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @command_buffers(%x: tensor<8xf32>) {
  // expected-error @+1 {{[1] has 2 buffers for 1 results}}
  %0 = rank.copy %x {buffers = [#rank.buffer<private, 0, 32>, #rank.buffer<private, 64, 32>]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=4]>
// expected-error @+1 {{sub-axis "data":(1)3 does not divide the mesh axis of size 4}}
func.func private @sub_axis() attributes {axes = #rank.axes<#mesh, {"data":(1)3}>}

// -----
#mesh = #sharding.mesh<["data"=4]>
// The product of the two is 2^64.
// expected-error @+1 {{does not divide the mesh axis of size 4}}
func.func private @large_sub_axis() attributes {axes = #rank.axes<#mesh, {"data":(4294967296)4294967296}>}

// -----
// expected-error @+1 {{a buffer is shared or private}}
func.func private @region() attributes {buffer = #rank.buffer<public, 0, 4>}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @collective_of_nothing() {
  // expected-error @+1 {{[1] has 0 operands and 0 results}}
  "rank.broadcast"() {axes = #rank.axes<#mesh, {"data"}>, id = 1 : i64} : () -> ()
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @dims(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has 2 dims for 1 operands}}
  %0 = rank.all_gather %x dims [0, 0] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @negative_dim(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] dim -1 is not a dim of 'tensor<4xf32>'}}
  %0 = rank.all_gather %x dims [-1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @element_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<4xi32>'; it must be 'tensor<4xf32>'}}
  %0 = rank.broadcast %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @reduce_scatter_result(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<4x2xf32>'; it must be 'tensor<2x4xf32>'}}
  %0 = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<4x2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_gather_result(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<4x4xf32>'; it must be 'tensor<4x8xf32>'}}
  %0 = rank.all_gather %x dims [1] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_to_all_result(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<8x2xf32>'; it must be 'tensor<2x8xf32>'}}
  %0 = rank.all_to_all %x split [0] concat [1] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<8x2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_to_all_dims(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] dim 2 is not a dim of 'tensor<4x4xf32>'}}
  %0 = rank.all_to_all %x split [0] concat [2] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<2x8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @all_to_all_blocks(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{[1] dim 0 of size 3 has no equal blocks for a group of 2}}
  %0 = rank.all_to_all %x split [0] concat [1] over <#mesh, {"data"}> id 1 : (tensor<3x4xf32>) -> tensor<1x8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_borders(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has 2 and 1 borders for 1 operands}}
  %0 = rank.halo %x dims [0] low [1, 1] high [1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<6xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_high_borders(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has 1 and 0 borders for 1 operands}}
  %0 = rank.halo %x dims [0] low [1] high [] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<6xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_low(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] has borders of -1 and 1 elements}}
  %0 = rank.halo %x dims [0] low [-1] high [1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_high(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] has borders of 1 and -1 elements}}
  %0 = rank.halo %x dims [0] low [1] high [-1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_high_added(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] has borders of 1 and -1 elements}}
  %0 = rank.halo_add %x dims [0] low [1] high [-1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @halo_add(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<6xf32>'; it must be 'tensor<2xf32>'}}
  %0 = rank.halo_add %x dims [0] low [1] high [1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<6xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @permute_sources(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] has 1 sources for a group of 2}}
  %0 = rank.permute %x from [0] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @permute_negative(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] source -1 is not in a group of 2}}
  %0 = rank.permute %x from [0, -1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @permute_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<2xf32>'; it must be 'tensor<4xf32>'}}
  %0 = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @slice_dim(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] dim 1 is not a dim of 'tensor<4xf32>'}}
  %0 = rank.slice %x dim 1 over <#mesh, {"data"}> : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @slice_blocks(%x: tensor<5xf32>) {
  // expected-error @+1 {{[1] dim 0 of size 5 has no equal blocks for a group of 2}}
  %0 = rank.slice %x dim 0 over <#mesh, {"data"}> : (tensor<5xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @view_before(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] elements [-1, 1) lie outside the operand's 4}}
  %0 = rank.view %x offset -1 : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @copy(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] changes the type from 'tensor<4xf32>' to 'tensor<2x2xf32>'}}
  %0 = rank.copy %x : (tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// -----
func.func @gemm_addend_type(%x: tensor<4x4xf32>, %c: tensor<4x4xf64>) {
  // expected-error @+1 {{[5] addend is 'tensor<4x4xf64>', the result 'tensor<4x4xf32>'}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] add %c sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_access(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{accesses are [offset, row, column], sizes [m, n, k]}}
  %0 = rank.gemm %x at [0, 4], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_b_access(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{accesses are [offset, row, column], sizes [m, n, k]}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_sizes(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{accesses are [offset, row, column], sizes [m, n, k]}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_empty(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{sizes are positive}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 0] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
// Rows that overlap.
func.func @gemm_rows(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[2] strides 3 and 1 of a are those of no matrix of 4x4}}
  %0 = rank.gemm %x at [0, 3, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
// Columns that overlap.
func.func @gemm_columns(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[2] strides 1 and 3 of b are those of no matrix of 4x4}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 1, 3] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
func.func @gemm_before(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[3] reads element 14 of a, which has 16}}
  %0 = rank.gemm %x at [-1, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
// The second product of the batch.
func.func @gemm_batch_range(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[3] reads element 23 of a, which has 16}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [2, 8, 0, 16] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----
func.func @gemm_batch_backwards(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[3] reads element 11 of b, which has 16}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [2, 0, -4, 16] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----
// Two products in one place.
func.func @gemm_batch_result(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[4] a loop of 4 writes the result with stride 4 where 8 elements are covered}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [2, 0, 0, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----
// expected-error @+1 {{[3] has 'tensor<4xf32, #sharding.layout<#sharding.mesh<["data"=2]>, [{"data"}]>>'; it takes local tensors}}
rank.kernel @kernel_layout(%x: tensor<4xf32, #sharding.layout<#sharding.mesh<["data"=2]>, [{"data"}]>>) {
  rank.return
}

// -----
// expected-error @+1 {{[2] in_place has 2 lists for 1 results}}
rank.kernel @kernel_lists(%x: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64>, array<i64>]} {
  rank.return %x : tensor<4xf32>
}

// -----
// expected-error @+1 {{[2] in_place is a list of array<i64: ..>}}
rank.kernel @kernel_list(%x: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i32: 0>]} {
  rank.return %x : tensor<4xf32>
}

// -----
// expected-error @+1 {{[2] argument 1 has no room for a result of type 'tensor<4xf32>'}}
rank.kernel @kernel_no_argument(%x: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64: 1>]} {
  rank.return %x : tensor<4xf32>
}

// -----
// expected-error @+1 {{[2] argument -1 has no room for a result of type 'tensor<4xf32>'}}
rank.kernel @kernel_negative(%x: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64: -1>]} {
  rank.return %x : tensor<4xf32>
}

// -----
rank.kernel @half(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = rank.view %x offset 0 : (tensor<4xf32>) -> tensor<2xf32>
  rank.return %0 : tensor<2xf32>
}
func.func @launch_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] @half has type '(tensor<4xf32>) -> tensor<2xf32>'}}
  %0 = rank.launch @half(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @half_in_flight(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 1 is 'tensor<4xf32>', but result 0 is '!rank.pending<tensor<4xf32>>'; all are in flight or none}}
  %p:2 = rank.all_reduce sum %x, %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>, tensor<4xf32>) -> (!rank.pending<tensor<4xf32>>, tensor<4xf32>)
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @wait_for_some(%x: tensor<4xf32>) {
  %p:2 = rank.all_reduce sum %x, %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>, tensor<4xf32>) -> (!rank.pending<tensor<4xf32>>, !rank.pending<tensor<4xf32>>)
  // expected-error @+1 {{[1] waits for what is not all results of one collective}}
  %y = rank.wait %p#0 of %x, %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @wait_without_operands(%x: tensor<4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  // expected-error @+1 {{[2] names other operands than the collective has}}
  %y = rank.wait %p of : (!rank.pending<tensor<4xf32>>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @wait_for_another_type(%x: tensor<4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  // expected-error @+1 {{[3] makes 'tensor<2x2xf32>' of '!rank.pending<tensor<4xf32>>'}}
  %y = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @wait_in_another_block(%x: tensor<1x4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<1x4xf32>) -> !rank.pending<tensor<1x4xf32>>
  %0 = rank.microbatches [0:0] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error @+1 {{[4] waits in another block than its collective stands in}}
    %y = rank.wait %p of %x : (!rank.pending<tensor<1x4xf32>>, tensor<1x4xf32>) -> tensor<1x4xf32>
    rank.yield %xi : tensor<4xf32>
  }
  } : (tensor<1x4xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @loop_without_segments(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[1] holds rank.view outside of segments}}
  rank.microbatches [] of(%x) carry() {
    %y = rank.view %x offset 0 : (tensor<2x8xf32>) -> tensor<8xf32>
  } : (tensor<2x8xf32>) -> ()
  return
}

// -----
func.func @segment_that_never_runs(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[1] never runs segment 'other'}}
  rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  rank.segment "other" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> ()
  return
}

// -----
func.func @run_of_no_segment(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[2] runs segment 1 of 1}}
  rank.microbatches [0:0, 1:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> ()
  return
}

// -----
func.func @run_of_no_microbatch(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[2] segment 'one' of microbatch 2 is none that 'tensor<2x8xf32>' has}}
  rank.microbatches [0:2] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> ()
  return
}

// -----
func.func @run_of_a_negative_microbatch() {
  // expected-error @+1 {{[2] segment 'one' of microbatch -1 is before the first}}
  rank.microbatches [0:-1] of() carry() {
  rank.segment "one" takes [] gives [] {
    rank.yield
  }
  } : () -> ()
  return
}

// -----
func.func @half_a_run() {
  // expected-error @+1 {{[2] has half a run}}
  "rank.microbatches"() <{operandSegmentSizes = array<i32: 0, 0>, schedule = array<i64: 0, 0, 0>}> ({
  rank.segment "one" takes [] gives [] {
    rank.yield
  }
  }) : () -> ()
  return
}

// -----
func.func @run_twice(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[2] segment 'one' of microbatch 1 runs twice}}
  rank.microbatches [0:1, 0:1] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> ()
  return
}

// -----
func.func @microbatches_of_a_scalar(%x: tensor<f32>) {
  // expected-error @+1 {{[2] 'tensor<f32>' has no dim of microbatches}}
  rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<f32>):
    rank.yield
  }
  } : (tensor<f32>) -> ()
  return
}

// -----
func.func @more_carried_than_results(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] carries more values than it has results}}
  rank.microbatches [0:0] of() carry(%x) {
  rank.segment "one" takes [] gives [] {
    rank.yield
  }
  } : (tensor<8xf32>) -> ()
  return
}

// -----
func.func @carried_of_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{[3] carries 'tensor<8xf32>' on as 'tensor<4xf32>'}}
  %0 = rank.microbatches [0:0] of() carry(%x) {
  rank.segment "one" takes [0] gives [0] {
  ^bb0(%y: tensor<4xf32>):
    rank.yield %y : tensor<4xf32>
  }
  } : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @carried_stash(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[3] has stash 0; stashes ascend, among the first 0 results}}
  %0 = rank.microbatches [0:0] of() carry(%x) stashes [0] {
  rank.segment "one" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----
func.func @stashes_that_descend(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[3] has stash 0; stashes ascend, among the first 2 results}}
  %0:2 = rank.microbatches [0:0] of(%x) carry() stashes [1, 0] {
  rank.segment "one" takes [] gives [0, 1] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y, %y : tensor<8xf32>, tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----
func.func @stash_without_slots(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[3] stash 0 is 'tensor<f32>', which has no slots along dim 0}}
  %0 = rank.microbatches [0:0] of(%x) carry() stashes [0] {
  rank.segment "one" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<f32>
  return
}

// -----
func.func @segment_of_another_result(%x: tensor<2x8xf32>) {
  %0 = rank.microbatches [0:0] of(%x) carry() {
  // expected-error @+1 {{[1] names result 1 of 1}}
  rank.segment "one" takes [] gives [1] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @segment_arguments(%x: tensor<2x8xf32>) {
  %0 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  // expected-error @+1 {{[2] block arguments must be}}
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @segment_yield(%x: tensor<2x8xf32>) {
  %0 = rank.microbatches [0:0] of(%x) carry() {
  // expected-error @+1 {{[3] must yield}}
  rank.segment "one" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @sum_before_it_starts(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[4] segment 'one' of microbatch 0 takes result 0, which nobody has given yet}}
  %0 = rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @stash_before_it_is_there(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[4] segment 'backward' of microbatch 1 takes result 0, which nobody has given yet}}
  %0 = rank.microbatches [0:0, 1:1, 0:1] of(%x) carry() stashes [0] {
  rank.segment "forward" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  rank.segment "backward" takes [0] gives [] {
  ^bb0(%y: tensor<8xf32>, %kept: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----
func.func @slot_that_was_used_again(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{[4] segment 'backward' of microbatch 0 takes result 0 from slot 0, where that of microbatch 2 is}}
  %0 = rank.microbatches [0:0, 0:1, 0:2, 1:0] of(%x) carry() stashes [0] {
  rank.segment "forward" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  rank.segment "backward" takes [0] gives [] {
  ^bb0(%y: tensor<8xf32>, %kept: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<3x8xf32>) -> tensor<2x8xf32>
  return
}

// -----
func.func @carried_from_two_places(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{[4] segment 'one' of microbatch 1 takes result 0 from another place than in an earlier microbatch; its first run must be a segment of its own}}
  %0 = rank.microbatches [0:0, 0:1] of(%x) carry(%s) {
  rank.segment "one" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>, %old: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  } : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @sum_in_another_order(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[5] segment 'rest' of microbatch 0 gives result 0 after microbatch 1}}
  %0 = rank.microbatches [0:1, 1:0] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%y: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @result_of_nobody(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[5] no segment gives result 0}}
  %0 = rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%y: tensor<8xf32>):
    rank.yield
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
// expected-error @+1 {{[buffer 1] a buffer has 2 slots at a distance of 0 bytes}}
func.func @slots_without_a_stride(%x: tensor<8xf32> {rank.buffer = #rank.buffer<private, 0, 32 slots 2>}) {
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @use_in_flight(%x: tensor<4xf32>) {
  // expected-note @+1 {{prior use here}}
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  // expected-error @+1 {{use of value '%p' expects different type than prior uses: 'tensor<4xf32>' vs '!rank.pending<tensor<4xf32>>'}}
  %y = rank.copy %p : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @send_to_itself(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] goes from index 1 to 1 of 2; they must be different ones}}
  rank.send %x over <#mesh, {"pipe"}> from 1 to 1 id 0 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @send_to_nobody(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] goes from index 0 to 2 of 2; they must be different ones}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 2 id 0 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @send_without_a_slot(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] has 0 slots}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 0 slots 0 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @receive_from_before_the_first() {
  // expected-error @+1 {{[1] goes from index -1 to 1 of 2; they must be different ones}}
  %y = rank.recv over <#mesh, {"pipe"}> from -1 to 1 id 0 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @receive_without_a_slot() {
  // expected-error @+1 {{[2] has -1 slots}}
  %y = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 0 slots -1 : tensor<4xf32>
  return
}

// -----
// expected-error @+1 {{[R1] rank.at says a coordinate for each of some axes, not {pipe = "first"}}}
func.func @place_by_name() attributes {rank.at = {pipe = "first"}} {
  return
}

// -----
// expected-error @+1 {{[R2] rank.denormals is "flush" or "keep", not "drop"}}
module attributes {rank.denormals = "drop"} {
}

// -----
// expected-error @+1 {{[R2] rank.denormals is "flush" or "keep", not true}}
module attributes {rank.denormals = true} {
}
