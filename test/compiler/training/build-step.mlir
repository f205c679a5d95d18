// A step is gradients of each microbatch, their sum, and an update.

// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) microbatches=2' --canonicalize --cse | FileCheck %s
// RUN: polyrank-opt %s --build-step='optimizer=adamw' | FileCheck %s --check-prefix=STATE
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) clip-norm=2' | FileCheck %s --check-prefix=CLIP
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) clip-norm=2 clip-norm-type=inf' | FileCheck %s --check-prefix=LARGEST
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) clip-value=2' | FileCheck %s --check-prefix=VALUE
// RUN: not polyrank-opt %s --build-step='clip-norm=-1' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not polyrank-opt %s --build-step='clip-value=-1' 2>&1 | FileCheck %s --check-prefix=NEGATIVE-VALUE
// RUN: not polyrank-opt %s --build-step='clip-norm=1 clip-value=1' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not polyrank-opt %s --build-step='clip-norm=1 clip-norm-type=3' 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) ema=0.75' | FileCheck %s --check-prefix=EMA
// RUN: not polyrank-opt %s --build-step='ema=1' 2>&1 | FileCheck %s --check-prefix=DECAY
// DECAY: --ema 1.000000e+00: the decay must be more than 0 and less than 1
// NEGATIVE: --clip-norm -1.000000e+00: must be positive
// NEGATIVE-VALUE: --clip-value -1.000000e+00: must be positive
// BOTH: --clip-norm 1.000000e+00 and --clip-value 1.000000e+00: gradients are clipped by one of them
// TYPE: --clip-norm-type 3: there are 2 and inf
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) lr-schedule=step(size=2) group=w:lr=x0.25' --canonicalize | FileCheck %s --check-prefix=RATE
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) group=w:lr=2' 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: not polyrank-opt %s --build-step='lr-schedule=stp(size=2)' 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: --lr-schedule 'stp(size=2)': there is no schedule 'stp'; there are: {{.*}}; nearest: 'step'
// RUN: polyrank-opt %s --build-step='mode=forward' | FileCheck %s --check-prefix=FORWARD

// Inputs have a leading dim of microbatches. The backward starts from the seed
// with one eighth, as if all eight targets counted; the update multiplies with
// eight over those that did.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<5x3xf32> {graph.role = #graph.parameter<@w>}, %[[STEP:[a-z0-9]+]]: tensor<i64> {graph.role = #graph.state<"step" init 0.000000e+00 : f64>}
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x5xf32> {graph.role = #graph.input<"x">}, %[[L:[a-z0-9]+]]: tensor<2x4xi64>
// CHECK-SAME: -> (tensor<5x3xf32> {graph.role = #graph.next<0>}, tensor<i64> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.output<"loss">}, tensor<f32> {graph.role = #graph.output<"count">})
// CHECK: %[[SUMS:.+]]:3 = graph.microbatches count = 2 of(%[[X]], %[[L]]) carry() {
// CHECK: %[[SEED:.+]] = graph.seed 1.250000e-01 : tensor<f32>
// CHECK: graph.cross_entropy_grad {{.*}}graph.origin = "cross_entropy"
// CHECK: %[[DW:.+]] = graph.matmul {{.*}}graph.origin = "matmul"
// CHECK: graph.yield sum(%[[DW]], %{{.+}}, %{{.+}}) carry()
// CHECK: %[[SUM:.+]] = graph.gradient %[[SUMS]]#0 of @w
// CHECK: %[[SCALE:.+]] = graph.broadcast
// CHECK: %[[GRADIENT:.+]] = graph.mul %[[SUM]], %[[SCALE]]
// CHECK: %[[CHANGE:.+]] = graph.mul %[[GRADIENT]], %{{.+}}
// CHECK: %[[NEW:.+]] = graph.sub %[[W]], %[[CHANGE]]
// CHECK: %[[NEXT:.+]] = graph.add %[[STEP]], %{{.+}}
// CHECK: %[[LOSS:.+]] = graph.div %[[SUMS]]#1, %[[SUMS]]#2
// CHECK: return %[[NEW]], %[[NEXT]], %[[LOSS]], %[[SUMS]]#2
// CHECK-NOT: @forward

// CLIP-LABEL: func.func @step
// CLIP-SAME: {graph.role = #graph.output<"grad_norm">}
// CLIP: %[[GRADIENT:.+]] = graph.gradient %{{.+}} of @w
// CLIP: %[[SQUARES:.+]] = graph.mul %[[GRADIENT]], %[[GRADIENT]]
// CLIP: %[[SUM:.+]] = graph.reduce sum %[[SQUARES]] over [0, 1]
// CLIP: %[[ROOT:.+]] = graph.sqrt %[[SUM]]
// CLIP: %[[NORM:.+]] = graph.mul %[[ROOT]], %[[COUNTED:.+]] :
// CLIP: %[[LESS:.+]] = graph.min %{{.+}}, %{{.+}} : tensor<f32>
// CLIP: %[[FACTOR:.+]] = graph.mul %[[COUNTED]], %[[LESS]]
// CLIP: %[[SPREAD:.+]] = graph.broadcast %[[FACTOR]]
// CLIP: graph.mul %[[GRADIENT]], %[[SPREAD]]
// CLIP: return {{.*}}%[[NORM]] :
// LARGEST: %[[SIZES:.+]] = graph.abs %{{.+}} : tensor<5x3xf32>
// LARGEST: graph.reduce max %[[SIZES]] over [0, 1]
// VALUE: %[[MOST:.+]] = graph.min %{{.+}}, %{{.+}} : tensor<5x3xf32>
// VALUE: graph.max %[[MOST]], %{{.+}} : tensor<5x3xf32>
// VALUE-NOT: grad_norm

// STATE-LABEL: func.func @step
// STATE-SAME: {graph.role = #graph.state<"exp_avg" of @w init 0.000000e+00 : f64>}
// STATE-SAME: {graph.role = #graph.state<"exp_avg_sq" of @w init 0.000000e+00 : f64>}
// STATE-SAME: {graph.role = #graph.next<1>}
// STATE-SAME: {graph.role = #graph.next<2>}

// The learning rate of a step is one f64, of a group with its factor or a base of
// its own.

// RATE-LABEL: func.func @step
// RATE-SAME: %[[RATE:[a-z0-9]+]]: tensor<f64> {graph.role = #graph.learning_rate<5.000000e-01 : f64 scale 2.500000e-01 : f64 schedule "step(size=2)">}
// RATE-NOT: learning_rate
// RATE: %[[F32:.+]] = graph.convert %[[RATE]] : (tensor<f64>) -> tensor<f32>
// RATE: %[[SPREAD:.+]] = graph.broadcast %[[F32]]
// RATE: graph.mul %{{.+}}, %[[SPREAD]] : tensor<5x3xf32>
// OWN: remark: --group 'w:lr=2': 1 parameter, w
// OWN: tensor<f64> {graph.role = #graph.learning_rate<2.000000e+00 : f64>}

// A moving mean is the parameter itself after the first step, then a quarter of
// the way from the mean to it.

// EMA-LABEL: func.func @step
// EMA-SAME: %[[MEAN:[a-z0-9]+]]: tensor<5x3xf32> {graph.role = #graph.state<"ema" of @w init 0.000000e+00 : f64>}
// EMA-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {graph.role = #graph.state<"step"
// EMA: %[[FIRST:.+]] = graph.compare eq %[[STEP]]
// EMA-DAG: %[[ALL:.+]] = graph.constant dense<1.000000e+00> : tensor<f32>
// EMA-DAG: %[[PART:.+]] = graph.constant dense<2.500000e-01> : tensor<f32>
// EMA: %[[SHARE:.+]] = graph.select %[[FIRST]], %[[ALL]], %[[PART]]
// EMA: %[[NEW:.+]] = graph.sub
// EMA: %[[WAY:.+]] = graph.sub %[[NEW]], %[[MEAN]]
// EMA: %[[SPREAD:.+]] = graph.broadcast %[[SHARE]]
// EMA: %[[PIECE:.+]] = graph.mul %[[WAY]], %[[SPREAD]]
// EMA: %[[NEXT:.+]] = graph.add %[[MEAN]], %[[PIECE]]
// EMA: return %[[NEW]], %[[NEXT]]

// A forward step returns its parameters as they were.

// FORWARD-LABEL: func.func @step
// FORWARD-SAME: %[[W:[a-z0-9]+]]: tensor<5x3xf32> {graph.role = #graph.parameter<@w>}, %{{.+}}: tensor<1x4x5xf32> {graph.role = #graph.input<"x">}
// FORWARD-NOT: graph.seed
// FORWARD: return %[[W]]

graph.parameter @w : tensor<5x3xf32> at "m.onnx" offset 0 length 60 {trainable}
func.func @forward(%arg0: tensor<5x3xf32> {graph.role = #graph.parameter<@w>}, %arg1: tensor<4x5xf32> {graph.role = #graph.input<"x">}, %arg2: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 3 ignored -100>}) -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<4>}) {
  %0 = graph.matmul %arg1, %arg0 batch [] x [] contract [1] x [0] : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %loss, %lse = graph.cross_entropy %0, %arg2 {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %1 = graph.constant dense<-100> : tensor<4xi64>
  %2 = graph.compare ne %arg2, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %3 = graph.convert %2 : (tensor<4xi1>) -> tensor<4xf32>
  %4 = graph.reduce sum %3 over [0] : (tensor<4xf32>) -> tensor<f32>
  %5 = graph.reduce sum %loss over [0] : (tensor<4xf32>) -> tensor<f32>
  return %5, %4 : tensor<f32>, tensor<f32>
}
