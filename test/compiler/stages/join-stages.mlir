// RUN: polyrank-opt %s --join-stages | FileCheck %s

#mesh = #sharding.mesh<["pipe"=2]>
module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b", sharding.mesh = #mesh} {
  graph.parameter @w : tensor<f32> at "weights.bin" offset 0 length 4 {graph.stage = 0 : i64, trainable}
  graph.parameter @u : tensor<f32> at "weights.bin" offset 4 length 4 {graph.stage = 1 : i64, trainable}

  // Each state that all stages come to have is kept on the stage of its own: all
  // of them, also those that are joined after a sum that was taken apart and
  // erased.
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: (%[[U:.+]]: tensor<f32> {{.*}}@u>}, %[[A:.+]]: tensor<f32> {{.*}}, %[[B:.+]]: tensor<f32> {{.*}}, %[[C:.+]]: tensor<f32>
  // CHECK-DAG: %[[JA:.+]] = pipeline.join sum %[[A]], %[[U]]
  // CHECK-DAG: %[[JB:.+]] = pipeline.join sum %[[B]], %[[U]]
  // CHECK-DAG: %[[JC:.+]] = pipeline.join sum %[[C]], %[[U]]
  // CHECK-DAG: %[[KA:.+]] = pipeline.transfer %[[JA]] to 0
  // CHECK-DAG: %[[KB:.+]] = pipeline.transfer %[[JB]] to 0
  // CHECK-DAG: %[[KC:.+]] = pipeline.transfer %[[JC]] to 0
  // CHECK: return %[[KA]], %[[KB]], %[[KC]]
  func.func @step(%u: tensor<f32> {graph.role = #graph.parameter<@u>},
                  %a: tensor<f32> {graph.role = #graph.state<"a" of @w init 0.0 : f64>},
                  %b: tensor<f32> {graph.role = #graph.state<"b" of @w init 0.0 : f64>},
                  %c: tensor<f32> {graph.role = #graph.state<"c" of @w init 0.0 : f64>})
      -> (tensor<f32> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.next<2>}, tensor<f32> {graph.role = #graph.next<3>}) {
    %0 = graph.add %a, %u : tensor<f32>
    %1 = graph.add %b, %u : tensor<f32>
    %2 = graph.add %c, %u : tensor<f32>
    return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
