// RUN: polyrank-opt %s --assign-buffers --check-buffers | FileCheck %s
// The example of docs/time.md: the results lie where the operands lay.

#mesh = #sharding.mesh<["data"=2]>
// CHECK-LABEL: func.func @started
func.func @started(%a: tensor<4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
%x = rank.copy %a : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: rank.copy {{.*}}buffers = [#rank.buffer<shared, 0, 16>]
// CHECK: rank.all_reduce {{.*}}buffers = [#rank.buffer<shared, 0, 16>]
// CHECK: rank.wait {{.*}}buffers = [#rank.buffer<shared, 0, 16>]
%p = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
// what stands here runs meanwhile
%y = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
return %y : tensor<4xf32>
}
