// RUN: polyrank-opt %s --apply-strategy="shard=*.up=[-,tensor],out(ln)=[data,tensor,-]@2,qkv=[-,tensor]" 2>&1 | FileCheck %s
// RUN: polyrank-opt %s --apply-strategy="shard=up=[-,tensor],model.up=[tensor,-]" 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: polyrank-opt %s --apply-strategy="shard=up=[tensor,-],model.up=[-,tensor]@1" 2>&1 | FileCheck %s --check-prefix=PRIORITY
// RUN: polyrank-opt %s --apply-strategy="shard=up=[?,data+tensor]" 2>&1 | FileCheck %s --check-prefix=OPEN
// RUN: printf '# the MLP\n\n up = [-,tensor]@1  # by columns\n' > %t
// RUN: polyrank-opt %s --apply-strategy="shard-file=%t" 2>&1 | FileCheck %s --check-prefix=FILE
// A pattern names parameters by their stored dims, leading modules may be left
// out, out() names a module's result; data splits the batch by default.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
module attributes {sharding.mesh = #mesh} {
graph.parameter @"model.up" : tensor<8x8xf32> at "m.onnx" offset 0 length 256 {trainable}
graph.parameter @"model.qkv" : tensor<8x24xf32> at "m.onnx" offset 256 length 768 {trainable}
graph.parameter @"model.norm" : tensor<8xf32> at "m.onnx" offset 1024 length 32 {trainable}

// Of two patterns for one parameter the last holds, unless the other's priority
// is more important.
// LAST: 'model.up': 'model.up=[tensor,-]' replaces 'up=[-,tensor]'
// LAST: #sharding.constraint<#sharding.layout<#mesh, [{"tensor"}, {}]>
// PRIORITY: 'model.up': 'up=[tensor,-]' is kept, not 'model.up=[-,tensor]@1'
// PRIORITY: #sharding.constraint<#sharding.layout<#mesh, [{"tensor"}, {}]>
// OPEN: #sharding.constraint<#sharding.layout<#mesh, [{}, {"data", "tensor"}]> open [true, false]
// FILE: #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> priority 1

// The fused projection is 3 x 2 heads x 4: the axis splits the heads.
// CHECK: the axis data=2 splits the batch of x
// CHECK: 'model.qkv': tensor splits the 2 heads of dim 1
// CHECK: func.func @step
// CHECK-SAME: #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> from "*.up=[-,tensor]">
// CHECK-SAME: #sharding.constraint<#sharding.layout<#mesh, [{}, {}, {"tensor"}, {}]> from "qkv=[-,tensor]">
// CHECK-SAME: #sharding.constraint<#sharding.layout<#mesh, [{}, {"data"}, {}, {}]> open [false, false, true, true] priority 3 from "data splits the batch of x">
// CHECK: graph.layer_norm {{.*}}sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {"tensor"}, {}]>{{.*}} from "out(ln)=[data,tensor,-]@2">
func.func @step(%up: tensor<8x8xf32> {graph.role = #graph.parameter<@"model.up">},
    %qkv: tensor<8x3x2x4xf32> {graph.role = #graph.parameter<@"model.qkv" view [0, 24, 8, 4, 1]>},
    %norm: tensor<8xf32> {graph.role = #graph.parameter<@"model.norm">},
    %batch: tensor<2x4x6x8xf32> {graph.role = #graph.input<"x">})
    -> (tensor<8x8xf32> {graph.role = #graph.next<0>}, tensor<8x3x2x4xf32> {graph.role = #graph.next<1>}, tensor<8xf32> {graph.role = #graph.next<2>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  %loss = graph.microbatches count = 2 of(%batch) carry() {
  ^bb0(%index: tensor<i64>, %x: tensor<4x6x8xf32>):
    %n, %mean, %rstd = graph.layer_norm %x, %norm, %norm {epsilon = 1.0e-05 : f64, graph.scope = "model.ln"} : (tensor<4x6x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x6x8xf32>, tensor<4x6xf32>, tensor<4x6xf32>)
    %p = graph.matmul %n, %qkv batch [] x [] contract [2] x [0] : (tensor<4x6x8xf32>, tensor<8x3x2x4xf32>) -> tensor<4x6x3x2x4xf32>
    %t = graph.transpose %p {permutation = array<i64: 0, 3, 1, 4, 2>} : (tensor<4x6x3x2x4xf32>) -> tensor<4x2x6x4x3xf32>
    %q0 = graph.slice %t {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 4, 2, 6, 4, 1>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<4x2x6x4x3xf32>) -> tensor<4x2x6x4x1xf32>
    %q = graph.reshape %q0 : (tensor<4x2x6x4x1xf32>) -> tensor<4x2x6x4xf32>
    %a, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true} : (tensor<4x2x6x4xf32>, tensor<4x2x6x4xf32>, tensor<4x2x6x4xf32>) -> (tensor<4x2x6x4xf32>, tensor<4x2x6xf32>)
    %u = graph.matmul %n, %up batch [] x [] contract [2] x [0] : (tensor<4x6x8xf32>, tensor<8x8xf32>) -> tensor<4x6x8xf32>
    %l0 = graph.reduce sum %a over [0, 1, 2, 3] : (tensor<4x2x6x4xf32>) -> tensor<f32>
    %l1 = graph.reduce sum %u over [0, 1, 2] : (tensor<4x6x8xf32>) -> tensor<f32>
    %l = graph.add %l0, %l1 : tensor<f32>
    graph.yield sum(%l) carry() : tensor<f32>
  } : (tensor<2x4x6x8xf32>) -> tensor<f32>
  return %up, %qkv, %norm, %loss : tensor<8x8xf32>, tensor<8x3x2x4xf32>, tensor<8xf32>, tensor<f32>
}
}
