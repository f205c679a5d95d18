// RUN: polyrank-opt %s --mark-phases | FileCheck %s
// RUN: polyrank-opt %s --mark-phases --mark-phases | FileCheck %s
// RUN: polyrank-opt %s --mark-phases --mlir-print-debuginfo | FileCheck %s --check-prefix=NAMED
// The backward begins at graph.seed, the update at graph.gradient; what is
// computed for one of them alone is of it. What a node is called says nothing.

!x = tensor<4xf32>
!s = tensor<f32>
!i = tensor<i64>

graph.parameter @w : tensor<4xf32> at "model.onnx" offset 0 length 16 {trainable}

// CHECK-LABEL: func.func @step
// CHECK: graph.tanh %{{.*}} : tensor<4xf32>
// CHECK: graph.mul %{{.*}} : tensor<4xf32>
// CHECK: graph.reduce sum %{{.*}} over [0] : (tensor<4xf32>)
// Only the backward reads it.
// CHECK: graph.exp %{{.*}} {graph.phase = #graph.phase<backward>}
// CHECK: graph.seed 1.000000e+00 {graph.phase = #graph.phase<backward>}
// CHECK: graph.broadcast %{{.*}} {dims = array<i64>, graph.phase = #graph.phase<backward>}
// CHECK: graph.mul %{{.*}} {graph.phase = #graph.phase<backward>}
// CHECK: graph.gradient %{{.*}} of @w {graph.phase = #graph.phase<update>}
// The rate, which only the update reads; the loss is nothing of it.
// CHECK: graph.convert %{{.*}} {graph.phase = #graph.phase<update>}
// CHECK: graph.broadcast %{{.*}} {dims = array<i64>, graph.phase = #graph.phase<update>}
// CHECK: graph.mul %{{.*}} {graph.phase = #graph.phase<update>}
// CHECK: graph.sub %{{.*}} {graph.phase = #graph.phase<update>}
// The next number of the step is the optimizer's, next statistics are the
// model's.
// CHECK: graph.constant dense<1> : tensor<i64> {graph.phase = #graph.phase<update>}
// CHECK: graph.add %{{.*}} {graph.phase = #graph.phase<update>} : tensor<i64>
// CHECK: graph.add %{{.*}} : tensor<4xf32>
// CHECK: return

// NAMED: graph.tanh %{{.*}} : tensor<4xf32> loc(#[[W:.*]])
// NAMED: graph.mul %{{.*}} : tensor<4xf32> loc(#[[STEP:.*]])
// NAMED-DAG: #[[W]] = loc("w")
// NAMED-DAG: #[[STEP]] = loc("step")
func.func @step(%w: !x {graph.role = #graph.parameter<@w>}, %mean: !x {graph.role = #graph.parameter<@mean>}, %number: !i {graph.role = #graph.state<"step">}, %x: !x {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.next<0>}, !x {graph.role = #graph.next<1>}, !i {graph.role = #graph.next<2>}, !s {graph.role = #graph.output<"loss">}) {
  %a = graph.tanh %x : !x loc("w")
  %b = graph.mul %w, %a : !x loc("step")
  %loss = graph.reduce sum %b over [0] : (!x) -> !s
  %e = graph.exp %a : !x
  %seed = graph.seed 1.0 : !s
  %d = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
  %dw = graph.mul %d, %e : !x
  %g = graph.gradient %dw of @w : !x
  %rate = graph.convert %number : (!i) -> !s
  %rates = graph.broadcast %rate {dims = array<i64>} : (!s) -> !x
  %h = graph.mul %g, %rates : !x
  %next = graph.sub %w, %h : !x
  %one = graph.constant dense<1> : !i
  %following = graph.add %number, %one : !i
  %mean2 = graph.add %mean, %a : !x
  return %next, %mean2, %following, %loss : !x, !x, !i, !s
}

graph.parameter @mean : tensor<4xf32> at "model.onnx" offset 16 length 16

// With microbatches the sum of what is behind a seed is behind it; what an op
// was marked with stays.
// CHECK-LABEL: func.func @microbatches
// CHECK: graph.microbatches
// CHECK: graph.tanh %{{.*}} : tensor<4xf32>
// CHECK: graph.mul %{{.*}} {graph.phase = #graph.phase<backward>}
// CHECK: graph.yield
// CHECK: } : (
// CHECK: graph.neg %{{.*}} {graph.phase = #graph.phase<backward>}
// CHECK: graph.exp %{{.*}} {graph.phase = #graph.phase<update>}
// CHECK: graph.abs %{{.*}} {graph.phase = #graph.phase<update>}
// CHECK: graph.neg %{{.*}} : tensor<4xf32>
func.func @microbatches(%xs: tensor<2x4xf32> {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"a">}, !x {graph.role = #graph.output<"b">}) {
  %d, %y = graph.microbatches count = 2 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %a = graph.tanh %x : !x
    %seed = graph.seed 1.0 : !s
    %b = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
    %c = graph.mul %a, %b : !x
    graph.yield sum(%c, %a) carry() : !x, !x
  } : (tensor<2x4xf32>) -> (!x, !x)
  %n = graph.neg %d : !x
  %e = graph.exp %n {graph.phase = #graph.phase<update>} : !x
  %f = graph.abs %e : !x
  %m = graph.neg %y : !x
  return %f, %m : !x, !x
}
