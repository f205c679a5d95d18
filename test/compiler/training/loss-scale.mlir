// The scale of the loss: where it is multiplied and divided, what decides, and
// what a skipped step keeps.

// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) loss-scale=1024' --canonicalize | FileCheck %s --check-prefix=FIXED
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5,momentum=0.5) skip-nonfinite=true' --canonicalize --cse | FileCheck %s --check-prefix=SKIP
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) loss-scale=dynamic(init=8,min=0.5) clip-norm=2' --canonicalize --cse | FileCheck %s --check-prefix=DYNAMIC
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5) loss-scale=1' --canonicalize > %t.one
// RUN: polyrank-opt %s --build-step='optimizer=sgd(lr=0.5)' --canonicalize | diff - %t.one

// RUN: not polyrank-opt %s --build-step='loss-scale=1000' 2>&1 | FileCheck %s --check-prefix=POWER
// POWER: --loss-scale 1000: must be a power of two, so that scaling changes no bit of a gradient; the nearest are 512 and 1024
// RUN: not polyrank-opt %s --build-step='loss-scale=0' 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: --loss-scale 0: must be positive and finite
// RUN: not polyrank-opt %s --build-step='loss-scale=-2' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: --loss-scale -2: must be positive and finite
// RUN: not polyrank-opt %s --build-step='loss-scale=nan' 2>&1 | FileCheck %s --check-prefix=NAN
// NAN: --loss-scale nan: must be positive and finite
// RUN: not polyrank-opt %s --build-step='loss-scale=inf' 2>&1 | FileCheck %s --check-prefix=INFINITE
// INFINITE: --loss-scale inf: must be positive and finite
// 2^127 and 2^-127.
// RUN: not polyrank-opt %s --build-step='loss-scale=170141183460469231731687303715884105728' 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: must be from 2^-126 to 2^126, so that it and its inverse are exact numbers of f32
// RUN: not polyrank-opt %s --build-step='loss-scale=5.87747175411143753984368e-39' 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: must be from 2^-126 to 2^126
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamc' 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: --loss-scale 'dynamc': expected a number, such as 1024, or dynamic(..); nearest: 'dynamic'
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(8)' 2>&1 | FileCheck %s --check-prefix=POSITIONAL
// POSITIONAL: --loss-scale: dynamic: '8' is not KEY=VALUE, as in init=65536
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(grwth=2)' 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: --loss-scale: dynamic has no option 'grwth'; its options are: init, growth, backoff, window, hysteresis, min; nearest: 'growth'
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(init=3)' 2>&1 | FileCheck %s --check-prefix=INIT
// INIT: --loss-scale: dynamic: init=3: must be a power of two
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(growth=3)' 2>&1 | FileCheck %s --check-prefix=GROWTH
// GROWTH: --loss-scale: dynamic: growth=3: must be a power of two
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(backoff=0.75)' 2>&1 | FileCheck %s --check-prefix=BACKOFF
// BACKOFF: --loss-scale: dynamic: backoff=0.75: must be a power of two, so that scaling changes no bit of a gradient; the nearest are 0.5 and 1
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(min=0.3)' 2>&1 | FileCheck %s --check-prefix=MIN
// MIN: --loss-scale: dynamic: min=0.3: must be a power of two
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(growth=1)' 2>&1 | FileCheck %s --check-prefix=GROWS
// GROWS: --loss-scale: dynamic: growth=1: must be more than 1; write growth=2
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(backoff=1)' 2>&1 | FileCheck %s --check-prefix=FALLS
// FALLS: --loss-scale: dynamic: backoff=1: must be less than 1; write backoff=0.5
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(init=2,min=4)' 2>&1 | FileCheck %s --check-prefix=BELOW
// BELOW: --loss-scale: dynamic: min=4 is more than init=2, from which the scale starts
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(window=0)' 2>&1 | FileCheck %s --check-prefix=WINDOW
// WINDOW: --loss-scale: dynamic: window=0: must be at least 1
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic(hysteresis=0)' 2>&1 | FileCheck %s --check-prefix=HYSTERESIS
// HYSTERESIS: --loss-scale: dynamic: hysteresis=0: must be at least 1
// RUN: not polyrank-opt %s --build-step='loss-scale=dynamic skip-nonfinite=true' 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: --skip-nonfinite and --loss-scale 'dynamic': a dynamic scale skips steps that are not finite by itself; leave --skip-nonfinite out

// A fixed scale is a part of the seed, and has no state: 1024 of 4 targets.

// FIXED-LABEL: func.func @step
// FIXED-NOT: "updates"
// FIXED: graph.seed 2.560000e+02 : tensor<f32>
// FIXED: %[[TAKEN:.+]] = graph.gradient
// FIXED: %[[GRADIENT:.+]] = graph.mul %[[TAKEN]], %[[INVERSE:[a-z0-9_]+]]
// FIXED: graph.mul %[[GRADIENT]]
// FIXED-NOT: graph.select

// Without a norm the largest element decides; the number of updates is a state.

// SKIP-LABEL: func.func @step
// SKIP-SAME: %[[W:[a-z0-9]+]]: tensor<5x3xf32>
// SKIP-SAME: %[[BUFFER:[a-z0-9]+]]: tensor<5x3xf32> {graph.role = #graph.state<"momentum_buffer" of @w
// SKIP-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {graph.role = #graph.state<"step"
// SKIP-SAME: %[[UPDATES:[a-z0-9]+]]: tensor<i64> {graph.role = #graph.state<"updates"
// SKIP-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<i64> {graph.role = #graph.state<"skipped_steps"
// SKIP-NOT: "loss_scale"
// SKIP-SAME: graph.output<"skipped">
// SKIP-SAME: tensor<i64> {graph.role = #graph.output<"skipped_total">}
// SKIP-DAG: %[[MOST:.+]] = graph.constant dense<3.40282347E+38> : tensor<f32>
// SKIP: %[[TAKEN:.+]] = graph.gradient
// SKIP: %[[SIZES:.+]] = graph.abs %[[TAKEN]]
// SKIP: %[[LARGEST:.+]] = graph.reduce max %[[SIZES]] over [0, 1]
// SKIP: %[[APPLIES:.+]] = graph.compare le %[[LARGEST]], %[[MOST]]
// SKIP: %[[MORE:.+]] = graph.add %[[UPDATES]]
// SKIP: %[[APPLIED:.+]] = graph.select %[[APPLIES]], %[[MORE]], %[[UPDATES]]
// SKIP: %[[LESS:.+]] = graph.add %[[SKIPPED]]
// SKIP: %[[TOTAL:.+]] = graph.select %[[APPLIES]], %[[SKIPPED]], %[[LESS]]
// SKIP: %[[MOVED:.+]] = graph.sub %[[W]]
// SKIP: %[[EACH:.+]] = graph.broadcast %[[APPLIES]]
// SKIP: %[[NEW:.+]] = graph.select %[[EACH]], %[[MOVED]], %[[W]]
// SKIP: %[[KEPT:.+]] = graph.select %[[EACH]], %{{.+}}, %[[BUFFER]]
// SKIP: %[[NEXT:.+]] = graph.add %[[STEP]]
// SKIP: return %[[NEW]], %[[KEPT]], %[[NEXT]], %[[APPLIED]], %[[TOTAL]], {{.*}}%[[TOTAL]] :

// The gradient is divided by the scale before it is squared, and the norm that
// clips also decides.

// DYNAMIC-LABEL: func.func @step
// DYNAMIC-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {graph.role = #graph.state<"loss_scale" init 8.000000e+00 : f64>}
// DYNAMIC-SAME: #graph.state<"updates_in_a_row" init 0.000000e+00 : f64>
// DYNAMIC-SAME: #graph.state<"not_finite" init 0.000000e+00 : f64>
// DYNAMIC: %[[SEED:.+]] = graph.seed 2.500000e-01
// DYNAMIC: %[[START:.+]] = graph.mul %[[SEED]], %[[SCALE]]
// DYNAMIC: graph.broadcast %[[START]]
// DYNAMIC: %[[TAKEN:.+]] = graph.gradient
// DYNAMIC: %[[INVERSE:.+]] = graph.div %{{.+}}, %[[SCALE]]
// DYNAMIC: %[[FACTOR:.+]] = graph.broadcast %[[INVERSE]]
// DYNAMIC: %[[GRADIENT:.+]] = graph.mul %[[TAKEN]], %[[FACTOR]]
// DYNAMIC: %[[SQUARES:.+]] = graph.mul %[[GRADIENT]], %[[GRADIENT]]
// DYNAMIC: %[[SUM:.+]] = graph.reduce sum %[[SQUARES]] over [0, 1]
// DYNAMIC: %[[NORM:.+]] = graph.sqrt %[[SUM]]
// DYNAMIC: graph.compare le %[[NORM]], %{{.+}}
// DYNAMIC-NOT: graph.reduce max

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
