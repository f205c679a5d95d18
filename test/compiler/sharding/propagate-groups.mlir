// RUN: polyrank-opt %s --propagate-layouts --plan-reshards | FileCheck %s
// RUN: polyrank-opt %s --shuffle-ops=seed=3 --propagate-layouts=report=true --plan-reshards 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: polyrank-opt %s --propagate-layouts --plan-reshards --evaluate=distributed | FileCheck %s --check-prefix=VALUE
// Four heads of queries share two heads of keys. The axis splits the queries'
// heads; its major half splits the keys', and its minor half splits the copies
// that the reshape merges with them: nothing moves but the gradient of the keys'
// weight, once.

#mesh = #sharding.mesh<["tensor"=4]>
module attributes {sharding.mesh = #mesh} {

// OBJECTIVE: layouts: 12 bytes sent and {{[0-9]+}} FLOPs by each device a step; nothing less is possible (gap 0)
// VALUE: @step distributed

// CHECK-LABEL: func.func @step
func.func @step(
    %wq: tensor<4x3xf32> {graph.role = #graph.parameter<@q>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"tensor"}, {}]> from "q=[tensor,-]">},
    %wk: tensor<2x3xf32> {graph.role = #graph.parameter<@k>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"tensor":(1)2}, {}]> from "k=[tensor,-]">},
    %x: tensor<5x3xf32> {graph.role = #graph.input<"x">})
    -> (tensor<4x3xf32> {graph.role = #graph.next<0>}, tensor<2x3xf32> {graph.role = #graph.next<1>}, tensor<5x4xf32> {graph.role = #graph.output<"y">}) {
  %q = graph.matmul %x, %wq batch [] x [] contract [1] x [1] : (tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<5x4xf32>
  %k = graph.matmul %x, %wk batch [] x [] contract [1] x [1] : (tensor<5x3xf32>, tensor<2x3xf32>) -> tensor<5x2xf32>
  // CHECK: graph.broadcast
  // CHECK-SAME: -> tensor<5x2x2xf32, #sharding.layout<#mesh, [{}, {"tensor":(1)2}, {"tensor":(2)2}]>>
  %copies = graph.broadcast %k {dims = array<i64: 0, 1>} : (tensor<5x2xf32>) -> tensor<5x2x2xf32>
  // CHECK-NEXT: graph.reshape
  // CHECK-SAME: -> tensor<5x4xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
  %keys = graph.reshape %copies : (tensor<5x2x2xf32>) -> tensor<5x4xf32>
  // CHECK-NEXT: graph.mul
  %y = graph.mul %q, %keys : tensor<5x4xf32>
  %dq = graph.mul %y, %keys : tensor<5x4xf32>
  %dkeys = graph.mul %y, %q : tensor<5x4xf32>
  %dcopies = graph.reshape %dkeys : (tensor<5x4xf32>) -> tensor<5x2x2xf32>
  // CHECK: graph.reduce
  // CHECK-SAME: -> tensor<5x2xf32, #sharding.layout<#mesh, [{}, {"tensor":(1)2}], partial = sum {"tensor":(2)2}>>
  %dk = graph.reduce sum %dcopies over [2] : (tensor<5x2x2xf32>) -> tensor<5x2xf32>
  %dwq = graph.matmul %dq, %x batch [] x [] contract [0] x [0] : (tensor<5x4xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  // CHECK: graph.matmul
  // CHECK-NEXT: %[[DK:.*]] = graph.matmul
  // CHECK-SAME: -> tensor<2x3xf32, #sharding.layout<#mesh, [{"tensor":(1)2}, {}], partial = sum {"tensor":(2)2}>>
  // CHECK-NEXT: sharding.all_reduce %[[DK]]
  // CHECK-NOT: = sharding.
  %dwk = graph.matmul %dk, %x batch [] x [] contract [0] x [0] : (tensor<5x2xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  return %dwq, %dwk, %y : tensor<4x3xf32>, tensor<2x3xf32>, tensor<5x4xf32>
}
}
