// The example of docs/experts.md.
// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --apply-strategy='shard=w=[expert,-,-]' --propagate-layouts --plan-reshards -o %t.split.mlir
// RUN: FileCheck %s < %t.split.mlir
// RUN: polyrank-opt %t.split.mlir --evaluate=distributed --expect=%t.npz
// RUN: polyrank-opt %t.split.mlir --lowering-stage --evaluate=arena --expect=%t.npz --tolerance=1e-6

#mesh = #sharding.mesh<["expert"=2]>
module attributes {sharding.mesh = #mesh} {
  graph.parameter @w : tensor<2x4x3xf32> at "m.pt2" offset 0 length 96 {trainable}
  // Two operations for each element of the rows and column, half of them on each device.
  // CHECK: flops = 72
  // CHECK: %[[IDS:.+]] = graph.iota {{.*}}[{"expert"}]
  // CHECK: %[[Y:.+]] = graph.grouped_matmul %{{.+}}, %{{.+}}, %{{.+}}, %[[IDS]]
  // CHECK-SAME: partial = sum {"expert"}
  // CHECK: sharding.all_reduce %[[Y]]
  func.func @step(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %w: tensor<2x4x3xf32> {graph.role = #graph.parameter<@w>},
                     %groups: tensor<6xi64> {graph.role = #graph.input<"groups" range 2>}) -> (tensor<6x3xf32> {graph.role = #graph.output<"y">}) {
    %ids = graph.iota dim = 0 : tensor<2xi64>
    %y = graph.grouped_matmul %x, %w, %groups, %ids
       : (tensor<6x4xf32>, tensor<2x4x3xf32>, tensor<6xi64>, tensor<2xi64>) -> tensor<6x3xf32>
    return %y : tensor<6x3xf32>
  }
}
