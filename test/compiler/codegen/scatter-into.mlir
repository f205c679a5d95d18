// RUN: polyrank-opt %s --form-kernels --lower-kernels --assign-buffers | FileCheck %s

// The gradient of a table of which rows are read twice: in the place of what it is added to.
// CHECK: rank.kernel @kernel.scatter_add({{.*}}in_place = [array<i64: 2>]
// CHECK: kernel.scatter_add %{{.*}} at %{{.*}} to [d1] stride 4 limit 10 init(
// CHECK-LABEL: func.func @step
// CHECK: %[[PRODUCT:.*]] = rank.gemm {{.*}}buffers = {{\[}}[[PLACE:#rank.buffer<.*>]]]} :
// CHECK-NOT: rank.launch
// CHECK: rank.launch @kernel.scatter_add(%{{.*}}, %{{.*}}, %[[PRODUCT]]) {{.*}}buffers = {{\[}}[[PLACE]]]} :
func.func @step(%a: tensor<10x3xf32> {graph.role = #graph.input<"a">}, %b: tensor<3x4xf32> {graph.role = #graph.input<"b">},
                %ids: tensor<5xi64> {graph.role = #graph.input<"ids">}, %rows: tensor<5x4xf32> {graph.role = #graph.input<"rows">})
    -> (tensor<10x4xf32> {graph.role = #graph.output<"y">}) {
  %product = rank.gemm %a at [0, 3, 1], %b at [0, 4, 1] sizes [10, 4, 3] row 4 batch [] {alpha = 1.0 : f64}
      : (tensor<10x3xf32>, tensor<3x4xf32>) -> tensor<10x4xf32>
  %sum = graph.scatter_add %ids, %rows {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<5xi64>, tensor<5x4xf32>) -> tensor<10x4xf32>
  %all = graph.add %product, %sum : tensor<10x4xf32>
  return %all : tensor<10x4xf32>
}
