// Stages of about equal time, none below that of an operand.

// RUN: polyrank-opt %s --assign-stages=ranks=2 2>&1 | FileCheck %s
// RUN: polyrank-opt %s --assign-stages='ranks=2 chunks=2 schedule=interleaved' 2>/dev/null | FileCheck %s --check-prefix=INTERLEAVED
// RUN: polyrank-opt %s --assign-stages='ranks=2 chunks=2 schedule=zero-bubble-v stages=4 axis=depth' 2>/dev/null | FileCheck %s --check-prefix=V
// RUN: polyrank-opt %s --assign-stages='ranks=2 patterns=model.first.in=0,first.act=1' 2>/dev/null | FileCheck %s --check-prefix=PATTERN
// RUN: polyrank-opt %s --assign-stages='ranks=2 patterns=first.*=0' 2>/dev/null | FileCheck %s --check-prefix=MODULE
// RUN: polyrank-opt %s --assign-stages='ranks=2 patterns=mask=0' 2>/dev/null | FileCheck %s --check-prefix=MASK
// RUN: polyrank-opt %s --assign-stages='ranks=2 patterns=*=0,head/product=1' 2>/dev/null | FileCheck %s --check-prefix=LAST
// RUN: polyrank-opt %s --assign-stages='ranks=2 train=false' 2>&1 | FileCheck %s --check-prefix=FORWARD
// RUN: sed 's/<f32, 0.001>], bandwidth = 1000.0/<f32, 1000.0>], bandwidth = 0.001/' %s | polyrank-opt --assign-stages=ranks=2 2>&1 | FileCheck %s --check-prefix=RATES
// RUN: sed 's/<rates = /<links = [<"other", latency = 0.0, bandwidth = 1.0>, <"pipe", latency = 0.0, bandwidth = 0.0001>], rates = /' %s | polyrank-opt --assign-stages=ranks=2 2>&1 | FileCheck %s --check-prefix=LINK

// CHECK: remark: stages: the slowest of 2 on pipe (1f1b) takes 12.436 ms a microbatch, its transfers included; at least 11.456 ms are needed without any (gap 7.88%){{$}}
// CHECK: note: stage 0 at pipe=0: 'first.in/product' to 'first.out/product', 50.4% of the FLOPs, 2048 bytes of parameters, sends 256 bytes a microbatch{{$}}
// CHECK: note: stage 1 at pipe=1: 'second/product' to 'head/product', 49.6% of the FLOPs, 1024 bytes of parameters and 1024 of other stages'{{$}}

// CHECK: module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>, pipeline.schedule = "1f1b", rank.machine = #rank.machine<{{.+}}>}
// CHECK-LABEL: func.func @forward
// What nobody uses is gone, and what depends on the input alone is on no stage.
// CHECK-NOT: neg
// CHECK: graph.compare
// CHECK-NOT: graph.stage
// CHECK-SAME: : (
// CHECK: graph.matmul {{.*}}graph.stage = 0 : i64
// CHECK: graph.tanh {{.*}}graph.stage = 0 : i64
// CHECK: graph.select {{.*}}graph.stage = 0 : i64
// CHECK: graph.matmul {{.*}}graph.stage = 0 : i64
// CHECK: graph.matmul {{.*}}graph.stage = 1 : i64
// CHECK: graph.tanh {{.*}}graph.stage = 1 : i64
// CHECK: graph.matmul {{.*}}graph.stage = 1 : i64

// INTERLEAVED: pipeline.coordinates = array<i64: 0, 1, 0, 1>, pipeline.schedule = "interleaved"
// INTERLEAVED: graph.stage = 0
// INTERLEAVED: graph.stage = 1
// INTERLEAVED: graph.stage = 2
// INTERLEAVED: graph.stage = 3
// V: pipeline.axis = "depth", pipeline.coordinates = array<i64: 0, 1, 1, 0>, pipeline.schedule = "zero-bubble-v"

// PATTERN: graph.matmul {{.*}}graph.stage = 0
// PATTERN: graph.tanh {{.*}}graph.stage = 1
// PATTERN: graph.select {{.*}}graph.stage = 1
// PATTERN-NOT: graph.stage = 0

// MODULE: graph.matmul {{.*}}graph.stage = 0
// MODULE: graph.tanh {{.*}}graph.stage = 0
// MODULE: graph.select {{.*}}graph.stage = 0
// MODULE: graph.matmul {{.*}}graph.stage = 0
// MODULE: graph.matmul
// MODULE: graph.tanh
// MODULE: graph.matmul {{.*}}graph.stage = 1

// MASK: graph.compare {{.*}}graph.stage = 0

// Of two patterns the last holds.
// LAST: graph.tanh {{.*}}graph.stage = 0
// LAST: graph.tanh {{.*}}graph.stage = 0
// LAST: graph.matmul {{.*}}graph.stage = 1

// A product takes 2048 FLOPs, once more for each operand with a gradient, of
// which the input has none; 512 bytes, with the gradient, cross in two messages
// of 10 us each.
// FORWARD: takes 4.234 ms a microbatch, its transfers included; at least 4.192 ms are needed without any
// RATES: takes 10.388 ms a microbatch, its transfers included; at least 10.304 ms are needed without any
// LINK: takes 17.536 ms a microbatch, its transfers included; at least 11.456 ms are needed without any

!w = tensor<16x16xf32>
!x = tensor<4x16xf32>
module attributes {rank.machine = #rank.machine<rates = [<f32, 0.001>], bandwidth = 1000.0>} {
graph.parameter @a : !w at "m.onnx" offset 0 length 1024 {trainable}
graph.parameter @b : !w at "m.onnx" offset 1024 length 1024 {trainable}
graph.parameter @c : !w at "m.onnx" offset 2048 length 1024 {trainable}
func.func @forward(%a: !w {graph.role = #graph.parameter<@a>}, %b: !w {graph.role = #graph.parameter<@b>}, %c: !w {graph.role = #graph.parameter<@c>}, %x: !x {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"y">}) {
  %zero = graph.constant dense<0.0> : !x
  %mask = graph.compare gt %x, %zero : (!x, !x) -> tensor<4x16xi1> loc("mask")
  %0 = graph.matmul %x, %a batch [] x [] contract [1] x [0] {graph.scope = "model.first.in"} : (!x, !w) -> !x loc("first.in/product")
  %1 = graph.tanh %0 {graph.scope = "model.first.act"} : !x loc("first.act/tanh")
  %2 = graph.select %mask, %1, %zero {graph.scope = "model.first.act"} : (tensor<4x16xi1>, !x, !x) -> !x loc("first.act/select")
  %dead = graph.neg %2 : !x
  %3 = graph.matmul %2, %b batch [] x [] contract [1] x [0] {graph.scope = "model.first"} : (!x, !w) -> !x loc("first.out/product")
  %4 = graph.matmul %3, %c batch [] x [] contract [1] x [0] {graph.scope = "model.second"} : (!x, !w) -> !x loc("second/product")
  %5 = graph.tanh %4 {graph.scope = "model.second"} : !x loc("second/tanh")
  %6 = graph.matmul %5, %a batch [] x [] contract [1] x [0] {graph.scope = "model.head"} : (!x, !w) -> !x loc("head/product")
  return %6 : !x
}
}
