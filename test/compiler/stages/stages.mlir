// From ops that say their stage to a program for each coordinate of the pipe
// axis. The weight @w is used on both stages: its value is sent once a step, and
// its gradient comes back once, a partial sum over data.

// RUN: polyrank-opt %s --insert-transfers | FileCheck %s --check-prefix=TRANSFER
// RUN: polyrank-opt %s --insert-transfers --build-step='optimizer=sgd(lr=0.5) microbatches=4 clip-norm=1' --canonicalize --cse --join-stages -o %t.step.mlir
// RUN: FileCheck %s --check-prefix=STEP < %t.step.mlir
// RUN: polyrank-opt %t.step.mlir --apply-strategy --propagate-layouts --partition-stage -o %t.parts.mlir
// RUN: FileCheck %s --check-prefix=PLACE < %t.parts.mlir
// RUN: polyrank-opt %t.parts.mlir --localize --form-segments -o %t.ranks.mlir
// RUN: FileCheck %s --check-prefix=RANKS < %t.ranks.mlir

// All of them compute the same.
// RUN: polyrank-opt %t.step.mlir --evaluate=global --seed=1 --outputs=%t.npz
// RUN: polyrank-opt %t.parts.mlir --evaluate=distributed --seed=1 --expect=%t.npz
// RUN: polyrank-opt %t.step.mlir --apply-strategy --propagate-layouts --partition-stage=zero=2 --evaluate=distributed --seed=1 --expect=%t.npz
// RUN: polyrank-opt %t.ranks.mlir --evaluate=ranks --seed=1 --expect=%t.npz
// RUN: polyrank-opt %t.parts.mlir --lowering-stage --evaluate=arena --seed=1 --expect=%t.npz --tolerance=1e-6

// RUN: sed 's/^module attributes {/&rank.machine = #rank.machine<links = [<"pipe", latency = 1.0, bandwidth = 1.0>], rates = [<f32, 1.0>], bandwidth = 1.0>, /' %t.parts.mlir | polyrank-opt --lowering-stage=report=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT
// REPORT: the commands of a step at pipe=0 take {{[0-9.]+}} ms by the model without waiting for other programs, at least
// REPORT: the commands of a step at pipe=1 take {{[0-9.]+}} ms by the model without waiting for other programs, at least

// TRANSFER: graph.parameter @w {{.*}}graph.stage = 0
// TRANSFER: graph.parameter @u {{.*}}graph.stage = 1
// TRANSFER: func.func @forward(%[[W:[a-z0-9]+]]: {{.*}}@w>}, %[[U:[a-z0-9]+]]: {{.*}}@u>}, %[[X:[a-z0-9]+]]: {{.*}}, %[[L:[a-z0-9]+]]: {{.*}}labels
// TRANSFER: %[[COPY:.+]] = pipeline.transfer %[[W]] from 0 to 1
// TRANSFER: graph.matmul %[[X]], %[[W]]
// TRANSFER: %[[E:.+]] = graph.exp
// TRANSFER: %[[SENT:.+]] = pipeline.transfer %[[E]] from 0 to 1
// TRANSFER: %[[H:.+]] = graph.matmul %[[SENT]], %[[U]]
// TRANSFER: graph.matmul %[[H]], %[[COPY]]
// What counts targets is where their loss is.
// TRANSFER: %[[COUNT:.+]] = graph.reduce sum
// TRANSFER: pipeline.transfer %[[COUNT]] to 1
// TRANSFER-NOT: graph.stage

// STEP: func.func @step(%[[W:[a-z0-9]+]]:
// STEP: pipeline.transfer %[[W]] from 0 to 1
// STEP: %[[SUMS:.+]]:5 = graph.microbatches
// STEP: pipeline.transfer {{.*}} from 0 to 1
// STEP: pipeline.transfer {{.*}} from 1 to 0
// STEP-NOT: pipeline.transfer {{.*}} from
// STEP: graph.yield
// STEP: %[[BACK:.+]] = pipeline.transfer %[[SUMS]]#2 from 1 to 0
// STEP: %[[DW:.+]] = graph.add %[[SUMS]]#0, %[[BACK]]
// STEP: %[[GW:.+]] = graph.gradient %[[DW]] of @w
// STEP: %[[GU:.+]] = graph.gradient %[[SUMS]]#1 of @u
// STEP: %[[NW:.+]] = graph.reduce sum
// STEP: %[[NU:.+]] = graph.reduce sum
// STEP: %[[NORM:.+]] = pipeline.join sum %[[NW]], %[[NU]]
// STEP: graph.sqrt %[[NORM]]
// The factor has a count of stage 1 in it; stage 0 needs it too.
// STEP: pipeline.join sum %{{[0-9]+}} :

// PLACE: func.func @step(%{{.+}}: tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], at {"pipe" = 0}>> {graph.role = #graph.parameter<@w>}, %{{.+}}: tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], at {"pipe" = 1}>> {graph.role = #graph.parameter<@u>}
// PLACE: pipeline.transfer {{.*}} from 1 to 0 {{.*}} partial = sum {"data"}, at {"pipe" = 1}>> -> {{.*}} partial = sum {"data"}, at {"pipe" = 0}>>
// PLACE: %[[JOINED:.+]] = pipeline.join {{.*}} partial = sum {"pipe"}>>
// PLACE: sharding.all_reduce %[[JOINED]]

// RANKS-LABEL: func.func @step_0
// RANKS-SAME: @w>
// RANKS-SAME: rank.number = 0
// RANKS-NOT: "labels"
// RANKS-SAME: rank.at = {pipe = 0 : i64}
// RANKS: rank.send {{.*}} from 0 to 1 id 0 slots 1
// RANKS: rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1, 0:3, 2:2]
// RANKS: rank.segment "forward" takes
// RANKS: rank.send {{.*}} from 0 to 1 id 1 slots 1
// RANKS: rank.segment "backward first"
// RANKS: rank.recv {{.*}} from 1 to 0 id 3 slots 1
// RANKS-LABEL: func.func @step_1
// RANKS-SAME: @u>
// RANKS-SAME: rank.number = 1
// RANKS-SAME: "labels"
// RANKS-SAME: rank.at = {pipe = 1 : i64}
// RANKS: rank.recv {{.*}} from 0 to 1 id 0 slots 1
// RANKS: rank.microbatches [0:0, 1:0, 2:1, 3:1, 2:2, 3:2, 2:3]
// RANKS: rank.segment "backward first"
// The gradient of the activation goes before that of the weight is computed.
// RANKS: rank.send {{.*}} from 1 to 0 id 3 slots 1
// RANKS-NEXT: graph.matmul

#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
module attributes {sharding.mesh = #mesh, pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b"} {
graph.parameter @w : tensor<4x4xf32> at "m.onnx" offset 0 length 64 {trainable}
graph.parameter @u : tensor<4x4xf32> at "m.onnx" offset 64 length 64 {trainable}
func.func @forward(%w: tensor<4x4xf32> {graph.role = #graph.parameter<@w>}, %u: tensor<4x4xf32> {graph.role = #graph.parameter<@u>}, %x: tensor<4x4xf32> {graph.role = #graph.input<"x">}, %l: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 4 ignored -100>}) -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<4>}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] {graph.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = graph.exp %0 {graph.stage = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = graph.matmul %e, %u batch [] x [] contract [1] x [0] {graph.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w batch [] x [] contract [1] x [1] {graph.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %loss, %lse = graph.cross_entropy %b, %l {axis = 1 : i64, ignore_index = -100 : i64, graph.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %1 = graph.constant dense<-100> : tensor<4xi64>
  %2 = graph.compare ne %l, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %3 = graph.convert %2 : (tensor<4xi1>) -> tensor<4xf32>
  %4 = graph.reduce sum %3 over [0] : (tensor<4xf32>) -> tensor<f32>
  %5 = graph.reduce sum %loss over [0] {graph.stage = 1 : i64}: (tensor<4xf32>) -> tensor<f32>
  return %5, %4 : tensor<f32>, tensor<f32>
}
}
