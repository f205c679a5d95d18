// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// Every rank op survives printing and parsing.

#mesh = #sharding.mesh<["data"=2, "tensor"=4]>

// CHECK-LABEL: func @coordinates
func.func @coordinates(%x: tensor<8x4xf32>) -> (tensor<i64>, tensor<2x4xf32>, tensor<2x2xf32>) {
  // CHECK: rank.axis_index <#mesh, {"data", "tensor":(1)2}> : tensor<i64>
  %0 = rank.axis_index <#mesh, {"data", "tensor":(1)2}> : tensor<i64>
  // CHECK: rank.slice %{{.*}} dim 0 over <#mesh, {"tensor"}>
  %1 = rank.slice %x dim 0 over <#mesh, {"tensor"}> : (tensor<8x4xf32>) -> tensor<2x4xf32>
  // CHECK: rank.view %{{.*}} offset 16 : (tensor<8x4xf32>) -> tensor<2x2xf32>
  %2 = rank.view %x offset 16 : (tensor<8x4xf32>) -> tensor<2x2xf32>
  return %0, %1, %2 : tensor<i64>, tensor<2x4xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func @collectives
func.func @collectives(%x: tensor<8x4xf32>, %y: tensor<4xf32>) {
  // CHECK: rank.all_reduce sum %{{.*}}, %{{.*}} over <#mesh, {"data"}> id 1 {why = #sharding.reason<user = "matmul">}
  %0:2 = rank.all_reduce sum %x, %y over <#mesh, {"data"}> id 1 {why = #sharding.reason<user = "matmul">}
    : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK: rank.reduce_scatter max %{{.*}}, %{{.*}} dims [1, 0] over <#mesh, {"tensor"}> id 2
  %1:2 = rank.reduce_scatter max %x, %y dims [1, 0] over <#mesh, {"tensor"}> id 2
    : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x1xf32>, tensor<1xf32>)
  // CHECK: rank.all_gather %{{.*}} dims [0] over <#mesh, {"data", "tensor"}> id 3
  %2 = rank.all_gather %x dims [0] over <#mesh, {"data", "tensor"}> id 3 : (tensor<8x4xf32>) -> tensor<64x4xf32>
  // CHECK: rank.all_to_all %{{.*}} split [0] concat [1] over <#mesh, {"data"}> id 4
  %3 = rank.all_to_all %x split [0] concat [1] over <#mesh, {"data"}> id 4 : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK: rank.permute %{{.*}} from [1, 0] over <#mesh, {"data"}> id 5
  %4 = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 5 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: rank.broadcast %{{.*}} over <#mesh, {"data"}> id 6
  %5 = rank.broadcast %x over <#mesh, {"data"}> id 6 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// CHECK-LABEL: func @gemm
func.func @gemm(%x: tensor<2x4x16xf32>, %w: tensor<32x16xf32>, %c: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
  // CHECK: rank.gemm %{{.*}} at [0, 16, 1], %{{.*}} at [0, 1, 16] sizes [8, 32, 16] row 32 batch []
  %0 = rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] sizes [8, 32, 16] row 32 batch []
    : (tensor<2x4x16xf32>, tensor<32x16xf32>) -> tensor<2x4x32xf32>
  // CHECK: rank.gemm %{{.*}} add %{{.*}} sizes [4, 32, 16] row 32 batch [2, 64, 0, 128] {alpha = 5.000000e-01 : f64}
  %1 = rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] add %c sizes [4, 32, 16] row 32 batch [2, 64, 0, 128]
    {alpha = 5.000000e-01 : f64}
    : (tensor<2x4x16xf32>, tensor<32x16xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  // CHECK: rank.copy
  %2 = rank.copy %1 {buffers = [#rank.buffer<private, 64, 1024>]} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  return %2 : tensor<2x4x32xf32>
}

// CHECK-LABEL: func @gemm_into_a_wider_type
func.func @gemm_into_a_wider_type(%x: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // CHECK: rank.gemm {{.*}} batch [] {accumulator = f32} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %0 = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {accumulator = f32} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// CHECK-LABEL: rank.kernel @copy(%{{.*}}: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64: 0>]}
rank.kernel @copy(%x: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = [array<i64: 0>]} {
  rank.return %x : tensor<4xf32>
}

// CHECK-LABEL: func @microbatches
func.func @microbatches(%ids: tensor<4x8xf32>, %state: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%{{.*}}) carry(%{{.*}}) {
  // CHECK-NEXT: rank.segment "first" takes [1] gives [0, 1] {
  %0:2 = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%ids) carry(%state) {
  rank.segment "first" takes [1] gives [0, 1] {
  ^bb0(%x: tensor<8xf32>, %s: tensor<8xf32>):
    rank.yield %x, %s : tensor<8xf32>, tensor<8xf32>
  // CHECK: rank.segment "rest" takes [0, 1] gives [0, 1] {
  }
  rank.segment "rest" takes [0, 1] gives [0, 1] {
  ^bb0(%x: tensor<8xf32>, %sum: tensor<8xf32>, %s: tensor<8xf32>):
    rank.yield %sum, %s : tensor<8xf32>, tensor<8xf32>
  }
  } : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func @one_microbatch
func.func @one_microbatch(%ids: tensor<2x8xf32>) -> tensor<8xf32> {
  // CHECK: rank.microbatches [0:0] of(%{{.*}}) carry() {
  // CHECK: } : (tensor<2x8xf32>) -> tensor<8xf32>
  %0 = rank.microbatches [0:0] of(%ids) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%x: tensor<8xf32>):
    rank.yield %x : tensor<8xf32>
  }
  } : (tensor<2x8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// What is stashed has two slots; a buffer that is one of them.
// CHECK-LABEL: func @stash
func.func @stash(%ids: tensor<3x8xf32>) -> tensor<8xf32> {
  // CHECK: rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1, 2:2] of(%{{.*}}) carry() stashes [1] {
  %0:2 = rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1, 2:2] of(%ids) carry() stashes [1] {
  // CHECK-NEXT: rank.segment "forward" takes [] gives [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%x: tensor<8xf32>):
    // CHECK: #rank.buffer<private, 64, 32 stride 32 slots 2>
    %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 32 stride 32 slots 2>]} : (tensor<8xf32>) -> tensor<8xf32>
    rank.yield %y : tensor<8xf32>
  }
  rank.segment "backward first" takes [1] gives [0] {
  ^bb0(%x: tensor<8xf32>, %kept: tensor<8xf32>):
    rank.yield %kept : tensor<8xf32>
  }
  rank.segment "backward" takes [0, 1] gives [0] {
  ^bb0(%x: tensor<8xf32>, %sum: tensor<8xf32>, %kept: tensor<8xf32>):
    rank.yield %kept : tensor<8xf32>
  }
  } : (tensor<3x8xf32>) -> (tensor<8xf32>, tensor<2x8xf32>)
  return %0#0 : tensor<8xf32>
}

// CHECK-LABEL: func @launch
func.func @launch(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: rank.launch @copy(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = rank.launch @copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A buffer that is the device's block of a larger one.
// CHECK-LABEL: func @block
func.func @block(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  // CHECK: rank.slice {{.*}} {buffers = [#rank.buffer<shared, 64, 64 step 64 over <#mesh, {"data"}>>]}
  %0 = rank.slice %x dim 0 over <#mesh, {"data"}> {buffers = [#rank.buffer<shared, 64, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// CHECK-LABEL: func @in_flight
func.func @in_flight(%x: tensor<4xf32>, %z: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK: %[[P:.*]]:2 = rank.all_reduce sum %[[X:.*]], %[[Z:.*]] over {{.*}} -> (!rank.pending<tensor<4xf32>>, !rank.pending<tensor<2xf32>>)
  // CHECK: rank.wait %[[P]]#0, %[[P]]#1 of %[[X]], %[[Z]] : (!rank.pending<tensor<4xf32>>, !rank.pending<tensor<2xf32>>, tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  %p:2 = rank.all_reduce sum %x, %z over <#mesh, {"data"}> id 0 : (tensor<4xf32>, tensor<2xf32>) -> (!rank.pending<tensor<4xf32>>, !rank.pending<tensor<2xf32>>)
  %y:2 = rank.wait %p#0, %p#1 of %x, %z : (!rank.pending<tensor<4xf32>>, !rank.pending<tensor<2xf32>>, tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  return %y#0, %y#1 : tensor<4xf32>, tensor<2xf32>
}

// CHECK-LABEL: func @transfers
// CHECK-SAME: rank.number = 3 : i64
// CHECK-SAME: attributes {rank.at = {tensor = 1 : i64}}
func.func @transfers(%x: tensor<4xf32> {rank.number = 3 : i64}) attributes {rank.at = {tensor = 1 : i64}} {
  // CHECK: rank.send %{{.*}} over <#mesh, {"tensor"}> from 1 to 0 id 7 slots 2 : tensor<4xf32>
  rank.send %x over <#mesh, {"tensor"}> from 1 to 0 id 7 slots 2 : tensor<4xf32>
  // CHECK: rank.recv over <#mesh, {"tensor"}> from 0 to 1 id 8 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<4xf32>
  %y = rank.recv over <#mesh, {"tensor"}> from 0 to 1 id 8 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<4xf32>
  return
}

// What is stated may stand in any order; one thread is not written.
// CHECK: module @smallest attributes {rank.machine = #rank.machine<#cpu.target<"native">>}
module @smallest attributes {rank.machine = #rank.machine<#cpu.target<"native">, threads = 1, links = [], rates = []>} {}
// CHECK: module @targetless attributes {rank.machine = #rank.machine<bandwidth = 1.600000e+01>}
module @targetless attributes {rank.machine = #rank.machine<bandwidth = 16.0>} {}
// CHECK: module @default attributes {rank.machine = #rank.machine<threads = 1>}
module @default attributes {rank.machine = #rank.machine<threads = 1>} {}
// CHECK: module @largest attributes {rank.machine = #rank.machine<#cpu.target<"x86-64-v4">, threads = 2, links = [<"data", latency = 1.000000e+01, bandwidth = 2.500000e+01>, <"tensor", latency = 5.000000e-01, bandwidth = 0.1234567890123{{[0-9]*}}>], rates = [<f32, 1.200000e+02>, <bf16, 2.400000e+02>], bandwidth = 1.600000e+01, memory = 8589934592>}
module @largest attributes {rank.machine = #rank.machine<#cpu.target<"x86-64-v4">, memory = 8589934592, bandwidth = 16.0, rates = [<f32, 120.0>, <bf16, 240.0>],
                            links = [<"data", latency = 10.0, bandwidth = 25.0>, <"tensor", latency = 0.5, bandwidth = 0.1234567890123>], threads = 2>} {}
// CHECK: func.func private @parts() attributes {link = #rank.link<"data", latency = 1.000000e+01, bandwidth = 2.500000e+01>, rate = #rank.rate<f32, 1.200000e+02>}
func.func private @parts() attributes {link = #rank.link<"data", latency = 10.0, bandwidth = 25.0>, rate = #rank.rate<f32, 120.0>}
