// RUN: polyrank-opt %s --check-ranks -split-input-file -verify-diagnostics

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
func.func @agrees(%x: tensor<4xf32>) {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = rank.all_gather %0 dims [0] over <#mesh, {"tensor"}> id 1 : (tensor<4xf32>) -> tensor<8xf32>
  %2 = rank.permute %1 from [2, 3, 0, 1] over <#mesh, {"data", "tensor"}> id 2 : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @same_id(%x: tensor<4xf32>) {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{moves the value with id 0 a second time in one segment}}
  %1 = rank.all_reduce sum %0 over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
#other = #sharding.mesh<["data"=4]>
func.func @two_meshes(%x: tensor<4xf32>) {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{communicates over #sharding.mesh<["data"=4]>, other commands over #sharding.mesh<["data"=2]>}}
  %1 = rank.all_reduce sum %0 over <#other, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
// What is started and waited for later.
#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
func.func @in_flight(%x: tensor<4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  %q = rank.all_reduce sum %x over <#mesh, {"tensor"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  %0 = rank.wait %q of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  %1 = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @never_waited_for(%x: tensor<4xf32>) {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{and what follows it do not end on all ranks: starts and waits of one rank do not fit: rank 0 (data=0) never waits for}}
  %p = rank.all_reduce sum %0 over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @waited_for_twice(%x: tensor<4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  %0 = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{rank 0 (data=0) waits at command 2 for what command 0 started, which is not in flight there}}
  %1 = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @waited_for_behind_microbatches(%x: tensor<1x4xf32>, %y: tensor<4xf32>) {
  %p = rank.all_reduce sum %y over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  %0 = rank.microbatches [0:0] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<4xf32>):
    rank.yield %xi : tensor<4xf32>
  }
  } : (tensor<1x4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{stands in another segment than what it waits for: nothing is in flight where microbatches begin or end}}
  %1 = rank.wait %p of %y : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["space"=2]>
func.func @borders(%x: tensor<3x4xf32>) {
  %0 = rank.halo %x dims [1] low [1] high [2] over <#mesh, {"space"}> id 0 : (tensor<3x4xf32>) -> tensor<3x7xf32>
  %1 = rank.halo_add %0 dims [1] low [1] high [2] over <#mesh, {"space"}> id 1 : (tensor<3x7xf32>) -> tensor<3x4xf32>
  return
}

// -----
// All microbatches but the first move the values of the first, once more.
#mesh = #sharding.mesh<["data"=2]>
func.func @microbatches(%x: tensor<2x4xf32>) {
  %0 = rank.microbatches [0:0, 1:1] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<4xf32>):
    %1 = rank.all_reduce sum %xi over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
    rank.yield %1 : tensor<4xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<4xf32>, %sum: tensor<4xf32>):
    %1 = rank.all_reduce sum %xi over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
    rank.yield %1 : tensor<4xf32>
  }
  } : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----
// What moves before them is another value.
#mesh = #sharding.mesh<["data"=2]>
func.func @before_microbatches(%x: tensor<2x4xf32>) {
  %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = rank.microbatches [0:0, 1:1] of(%p) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error @+1 {{moves the value with id 0 a second time in one segment}}
    %1 = rank.all_reduce sum %xi over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
    rank.yield %1 : tensor<4xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<4xf32>, %sum: tensor<4xf32>):
    rank.yield %sum : tensor<4xf32>
  }
  } : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

