// RUN: polyrank-opt %s --join-stages | FileCheck %s
// A state that all stages have, such as the number of updates, gets its next
// value from a number that all have, even if only one stage has gradients: the
// norm is joined once, and each stage computes what follows from it.

#mesh = #sharding.mesh<["pipe"=2]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b", sharding.mesh = #mesh} {
  graph.parameter @w : tensor<4xf32> at "weights.bin" offset 0 length 16 {graph.stage = 0 : i64, trainable}
  graph.parameter @u : tensor<4xf32> at "weights.bin" offset 16 length 16 {graph.stage = 1 : i64}

  // CHECK-LABEL: func.func @step
  // CHECK-SAME: (%[[W:.+]]: tensor<4xf32> {{.*}}@w>}, %[[U:.+]]: tensor<4xf32> {{.*}}@u>}, %[[N:.+]]: tensor<i64>
  // CHECK: %[[NORM:.+]] = graph.reduce max
  // CHECK: %[[JOINED:.+]] = pipeline.join sum %[[NORM]]
  // CHECK: %[[APPLIES:.+]] = graph.compare le %[[JOINED]]
  // CHECK: %[[NEXT:.+]] = graph.select %[[APPLIES]], %{{.+}}, %[[N]]
  // CHECK: graph.select %{{.+}}, %{{.+}}, %[[W]]
  // CHECK: graph.select %{{.+}}, %{{.+}}, %[[U]]
  // CHECK-NOT: pipeline.join
  // CHECK: return %{{.+}}, %{{.+}}, %[[NEXT]]
  func.func @step(%w: tensor<4xf32> {graph.role = #graph.parameter<@w>}, %u: tensor<4xf32> {graph.role = #graph.parameter<@u>},
                  %n: tensor<i64> {graph.role = #graph.state<"updates" init 0.0 : f64>})
      -> (tensor<4xf32> {graph.role = #graph.next<0>}, tensor<4xf32> {graph.role = #graph.next<1>}, tensor<i64> {graph.role = #graph.next<2>}) {
    %one = graph.constant dense<1> : tensor<i64>
    %most = graph.constant dense<3.0> : tensor<f32>
    %sizes = graph.abs %w : tensor<4xf32>
    %norm = graph.reduce max %sizes over [0] : (tensor<4xf32>) -> tensor<f32>
    %applies = graph.compare le %norm, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = graph.add %n, %one : tensor<i64>
    %next = graph.select %applies, %more, %n : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
    %each = graph.broadcast %applies {dims = array<i64>} : (tensor<i1>) -> tensor<4xi1>
    %neww = graph.select %each, %sizes, %w : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %twice = graph.add %u, %u : tensor<4xf32>
    %newu = graph.select %each, %twice, %u : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %neww, %newu, %next : tensor<4xf32>, tensor<4xf32>, tensor<i64>
  }
}
