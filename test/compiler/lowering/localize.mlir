// RUN: polyrank-opt %s --localize -split-input-file | FileCheck %s
// Each sharding op as what one device does.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
#split = #sharding.layout<#mesh, [{"data"}, {}]>
#whole = #sharding.layout<#mesh, [{}, {}]>
#columns = #sharding.layout<#mesh, [{}, {"data"}]>
#partial = #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>
#tensor = #sharding.layout<#mesh, [{"tensor"}, {}]>

// The boundary keeps its attributes and records the global types.
// CHECK-LABEL: func.func @collectives
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32> {graph.role = #graph.input<"x">, rank.global = tensor<8x6xf32, #sharding.layout<#mesh, [{"data"}, {}]>>}
// CHECK-SAME: -> (tensor<8x6xf32> {graph.role = #graph.output<"y">, rank.global = tensor<8x6xf32, #sharding.layout<#mesh, [{}, {}]>>}
func.func @collectives(%x: tensor<8x6xf32, #split> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#split priority 1>}, %p: tensor<8x6xf32, #partial>)
    -> (tensor<8x6xf32, #whole> {graph.role = #graph.output<"y">}, tensor<8x6xf32, #columns>, tensor<8x6xf32, #tensor>, tensor<8x6xf32, #whole>, tensor<8x6xf32, #split>) {
  // CHECK: %[[GATHERED:.*]] = rank.all_gather %[[X]] dims [0] over <#mesh, {"data"}> id 0 {why = #sharding.reason<from = {{.*}}, to = "[{}, {}]">} : (tensor<4x6xf32>) -> tensor<8x6xf32>
  %0 = sharding.all_gather %x : (tensor<8x6xf32, #split>) -> tensor<8x6xf32, #whole>
  // CHECK: rank.all_to_all %[[X]] split [1] concat [0] over <#mesh, {"data"}> id 1 {{.*}} : (tensor<4x6xf32>) -> tensor<8x3xf32>
  %1 = sharding.all_to_all %x : (tensor<8x6xf32, #split>) -> tensor<8x6xf32, #columns>
  // Device (data, tensor) needs block `tensor`, which (tensor, data) has.
  // CHECK: rank.permute %[[X]] from [0, 2, 1, 3] over <#mesh, {"data", "tensor"}> id 2
  %2 = sharding.permute %x : (tensor<8x6xf32, #split>) -> tensor<8x6xf32, #tensor>
  // CHECK: rank.all_reduce sum %{{.*}} over <#mesh, {"data"}> id 3 {why = #sharding.reason<user = "matmul", from = {{.*}}, to = {{.*}}, constraint = "w">}
  %3 = sharding.all_reduce %p {why = #sharding.reason<user = "matmul", constraint = "w">} : (tensor<8x6xf32, #partial>) -> tensor<8x6xf32, #whole>
  // CHECK: rank.reduce_scatter sum %{{.*}} dims [0] over <#mesh, {"data"}> id 4 {{.*}} : (tensor<8x6xf32>) -> tensor<4x6xf32>
  %4 = sharding.reduce_scatter %p : (tensor<8x6xf32, #partial>) -> tensor<8x6xf32, #split>
  return %0, %1, %2, %3, %4 : tensor<8x6xf32, #whole>, tensor<8x6xf32, #columns>, tensor<8x6xf32, #tensor>, tensor<8x6xf32, #whole>, tensor<8x6xf32, #split>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
#whole = #sharding.layout<#mesh, [{}]>
#split = #sharding.layout<#mesh, [{"data"}]>
#partial = #sharding.layout<#mesh, [{}], partial = max {"data"}>

// Coordinates are read once.
// CHECK-LABEL: func.func @local
// CHECK: %[[I:.*]] = rank.axis_index <#mesh, {"data"}> : tensor<i64>
// CHECK-NOT: rank.axis_index
// CHECK: rank.slice %{{.*}} dim 0 over <#mesh, {"data"}> : (tensor<8xf32>) -> tensor<4xf32>
// CHECK: %[[FIRST:.*]] = graph.compare eq %[[I]]
// CHECK: %[[ALL:.*]] = graph.broadcast %[[FIRST]]
// CHECK: graph.constant dense<0xFF800000> : tensor<8xf32>
// CHECK: graph.select %[[ALL]]
func.func @local(%x: tensor<8xf32, #whole>) -> (tensor<8xf32, #split>, tensor<8xf32, #partial>, tensor<8xf32, #partial>) {
  %0 = sharding.slice %x : (tensor<8xf32, #whole>) -> tensor<8xf32, #split>
  %1:2 = sharding.to_partial %x, %x : (tensor<8xf32, #whole>, tensor<8xf32, #whole>) -> (tensor<8xf32, #partial>, tensor<8xf32, #partial>)
  return %0, %1#0, %1#1 : tensor<8xf32, #split>, tensor<8xf32, #partial>, tensor<8xf32, #partial>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
#padded = #sharding.layout<#mesh, [{"data"} pad 8]>
#zero = #sharding.layout<#mesh, [{"data"} pad 8 fill zero]>
#five = #sharding.layout<#mesh, [{}]>
#six = #sharding.layout<#mesh, [{} pad 6 fill neg_inf]>
#eight = #sharding.layout<#mesh, [{} pad 8]>

// What lies behind the end of the tensor, by the block's start, is filled.
// CHECK-LABEL: func.func @padding
// CHECK: %[[I:.*]] = rank.axis_index
// CHECK: %[[IOTA:.*]] = graph.iota dim = 0 : tensor<4xi64>
// CHECK: %[[START:.*]] = graph.mul %[[I]]
// CHECK: %[[STARTS:.*]] = graph.broadcast %[[START]]
// CHECK: %[[INDEX:.*]] = graph.add %[[IOTA]], %[[STARTS]]
// CHECK: %[[SIZE:.*]] = graph.constant dense<5> : tensor<4xi64>
// CHECK: graph.compare lt %[[INDEX]], %[[SIZE]]
// CHECK: graph.select
// CHECK: graph.slice %{{.*}} : (tensor<6xf32>) -> tensor<5xf32>
// CHECK: graph.pad %{{.*}} : (tensor<5xf32>) -> tensor<8xf32>
func.func @padding(%x: tensor<5xf32, #padded>, %y: tensor<5xf32, #six>) -> (tensor<5xf32, #zero>, tensor<5xf32, #eight>) {
  %0 = sharding.fill %x : (tensor<5xf32, #padded>) -> tensor<5xf32, #zero>
  %1 = sharding.repad %y : (tensor<5xf32, #six>) -> tensor<5xf32, #eight>
  return %0, %1 : tensor<5xf32, #zero>, tensor<5xf32, #eight>
}

// -----
// One device needs no layouts.
// CHECK-LABEL: func.func @one_device
// CHECK-SAME: %{{.*}}: tensor<4xf32> {rank.global = tensor<4xf32>}
func.func @one_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
#mesh = #sharding.mesh<["space"=2]>
#split = #sharding.layout<#mesh, [{"space"} pad 8]>
#halo = #sharding.layout<#mesh, [{"space"} pad 8 halo 1:1]>
#spill = #sharding.layout<#mesh, [{"space"} pad 8 spill 1:1]>
#windows = #sharding.layout<#mesh, [{"space"} pad 8, {}]>

// A block with its borders: what is not of the tensor is the windows' padding.
// CHECK-LABEL: func.func @windows
// CHECK: %[[WIDE:.*]] = rank.halo %{{.*}} dims [0] low [1] high [1] over <#mesh, {"space"}> id 0 {{.*}} : (tensor<4xf32>) -> tensor<6xf32>
// CHECK: graph.compare lt
// CHECK: graph.compare ge
// CHECK: %[[INSIDE:.*]] = graph.select %{{.*}}, %[[WIDE]]
// CHECK: graph.unfold %[[INSIDE]] {{.*}} : (tensor<6xf32>) -> tensor<4x3xf32>
// CHECK: %[[SUMS:.*]] = graph.fold %{{.*}} : (tensor<4x3xf32>) -> tensor<6xf32>
// CHECK: rank.halo_add %[[SUMS]] dims [0] low [1] high [1] over <#mesh, {"space"}> id 1 {{.*}} : (tensor<6xf32>) -> tensor<4xf32>
func.func @windows(%x: tensor<7xf32, #split>) -> tensor<7xf32, #split> {
  %0 = sharding.halo %x : (tensor<7xf32, #split>) -> tensor<7xf32, #halo>
  %1 = graph.unfold %0 {dim = 0 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<7xf32, #halo>) -> tensor<7x3xf32, #windows>
  %2 = graph.fold %1 {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64} : (tensor<7x3xf32, #windows>) -> tensor<7xf32, #spill>
  %3 = sharding.halo_add %2 : (tensor<7xf32, #spill>) -> tensor<7xf32, #split>
  return %3 : tensor<7xf32, #split>
}
