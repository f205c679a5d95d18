// RUN: polyrank-opt %s --propagate-layouts --decompose-composites --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --evaluate=global | sed s/global// > %t.global
// RUN: polyrank-opt %s --propagate-layouts --decompose-composites --plan-reshards --evaluate=distributed | sed s/distributed// > %t.distributed
// RUN: diff %t.global %t.distributed
// A composite of bf16 whose row is split over devices is computed in f32, and so
// are the reductions over the devices: the result is rounded once.

#mesh = #sharding.mesh<["tensor"=4]>
module attributes {sharding.mesh = #mesh} {

// CHECK-LABEL: func.func @main
// CHECK: graph.convert {{.*}} -> tensor<4x8xbf16
// CHECK-NEXT: %[[X:.*]] = graph.convert {{.*}} : (tensor<4x8xbf16, {{.*}}>) -> tensor<4x8xf32, {{.*}}>
// CHECK: graph.reduce max %[[X]]
// CHECK: sharding.all_reduce {{.*}} : (tensor<4xf32, {{.*}}partial = max {"tensor"}>>)
// CHECK: sharding.all_reduce {{.*}} : (tensor<4xf32, {{.*}}partial = sum {"tensor"}>>)
// CHECK: %[[Y:.*]] = graph.div {{.*}} : tensor<4x8xf32
// CHECK-NOT: bf16
// CHECK: graph.convert %[[Y]] : (tensor<4x8xf32, {{.*}}>) -> tensor<4x8xbf16, {{.*}}>
// CHECK-NEXT: return
func.func @main(%x: tensor<4x8xf32> {graph.role = #graph.input<"x">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> from "x=[-,tensor]">})
    -> (tensor<4x8xbf16> {graph.role = #graph.output<"y">, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"}]> from "y=[-,tensor]">}) {
  %0 = graph.convert %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %1 = graph.softmax %0 {dim = 1 : i64} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}
}
