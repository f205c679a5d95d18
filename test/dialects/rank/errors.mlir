// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every numbered constraint of the rank ops.

#mesh = #shard.mesh<["data"=2]>
// expected-error @+1 {{[1] axes "data" and "data" overlap}}
func.func private @axes() attributes {axes = #rank.axes<#mesh, {"data", "data"}>}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @all_reduce(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] result 0 is 'tensor<2xf32>'; it must be 'tensor<4xf32>'}}
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @collective_arity(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has 2 operands and 1 results}}
  %0 = rank.broadcast %x, %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @reduce_scatter(%x: tensor<3xf32>) {
  // expected-error @+1 {{[1] dim 0 of size 3 has no equal blocks for a group of 2}}
  %0 = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 1 : (tensor<3xf32>) -> tensor<1xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @all_gather(%x: tensor<3xf32>) {
  // expected-error @+1 {{[1] dim 1 is not a dim of 'tensor<3xf32>'}}
  %0 = rank.all_gather %x dims [1] over <#mesh, {"data"}> id 1 : (tensor<3xf32>) -> tensor<6xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @all_to_all(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{[1] splits and concatenates the same dim 1}}
  %0 = rank.all_to_all %x split [1] concat [1] over <#mesh, {"data"}> id 1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @permute(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] source 2 is not in a group of 2}}
  %0 = rank.permute %x from [0, 2] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @permute_twice(%x: tensor<4xf32>) {
  // expected-error @+1 {{[2] takes from member 1 twice}}
  %0 = rank.permute %x from [1, 1] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #shard.mesh<["data"=2]>
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
func.func @gemm_type(%x: tensor<4x4xf64>) {
  // expected-error @+1 {{[1] operand of type 'tensor<4x4xf64>'}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
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
  // expected-error @+1 {{[3] reads element 17 of b, which has 16}}
  %0 = rank.gemm %x at [0, 4, 1], %x at [2, 4, 1] sizes [4, 4, 4] row 4 batch [] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
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
func.func @microbatches_count(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{[1] dim 0 of 'tensor<4x8xf32>' is not the count of 2}}
  %0 = rank.microbatches count = 2 of(%x) carry() first {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  } rest {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @microbatches_arguments(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[2] block arguments of 'rest'}}
  %0 = rank.microbatches count = 2 of(%x) carry() first {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  } rest {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>):
    rank.yield %y : tensor<8xf32>
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----
func.func @microbatches_yield(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{[3] 'first' must yield}}
  %0 = rank.microbatches count = 2 of(%x) carry() first {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>):
    rank.yield %i : tensor<i64>
  } rest {
  ^bb0(%i: tensor<i64>, %y: tensor<8xf32>, %sum: tensor<8xf32>):
    rank.yield %sum : tensor<8xf32>
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}
