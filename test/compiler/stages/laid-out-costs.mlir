// Ops cost what stages.cost says, in the layouts of the step, and parameters take
// what stages.memory says. Both are gone after the cut.

// RUN: polyrank-opt %s --assign-stages='ranks=2 microbatches=4' 2>&1 | FileCheck %s
// RUN: sed 's/30000000, 64, 0/1000000, 64, 0/' %s | polyrank-opt --assign-stages='ranks=2 microbatches=4' 2>&1 | FileCheck %s --check-prefix=EVEN
// RUN: sed 's/32, 900/32, 0/' %s | polyrank-opt --assign-stages='ranks=2 microbatches=4' 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/32, 900/32, 0/; s/120, 50/20, 0/' %s | polyrank-opt --assign-stages='ranks=2 microbatches=4' 2>&1 | FileCheck %s --check-prefix=MEMORY

// The head takes 30 us, everything else 11, and the second product nothing. Two
// messages of 32 bytes take 20 us, and 6.4 ns.
// CHECK: stages: the slowest of 2 on pipe (1f1b) takes 50.006 us a microbatch, its transfers included; at least 30.000 us are needed without any
// CHECK-NOT: stages.cost
// CHECK-NOT: stages.memory
// CHECK: graph.matmul {{.*}}graph.stage = 0
// CHECK: graph.tanh {{.*}}graph.stage = 0
// Of two equal cuts the one that keeps less: the first stage has two microbatches
// in flight.
// CHECK: graph.matmul {{.*}}graph.stage = 1
// CHECK: graph.matmul {{.*}}graph.stage = 1

// EVEN: takes 26.006 us a microbatch, its transfers included; at least 6.000 us
// EVEN: graph.matmul {{.*}}graph.stage = 0
// EVEN: graph.tanh {{.*}}graph.stage = 1

// If it keeps nothing, the second stage would have the most parameters.
// KEPT: graph.tanh {{.*}}graph.stage = 0
// KEPT: graph.matmul {{.*}}graph.stage = 0

// With a small head it would not.
// MEMORY: graph.tanh {{.*}}graph.stage = 0
// MEMORY: graph.matmul {{.*}}graph.stage = 1

!w = tensor<16x16xf32>
!x = tensor<4x16xf32>
module {
graph.parameter @a : !w at "m.onnx" offset 0 length 1024 {trainable, stages.memory = array<i64: 100, 50>}
graph.parameter @b : !w at "m.onnx" offset 1024 length 1024 {trainable, stages.memory = array<i64: 9, 9>}
graph.parameter @c : !w at "m.onnx" offset 2048 length 1024 {trainable, stages.memory = array<i64: 120, 50>}
func.func @forward(%a: !w {graph.role = #graph.parameter<@a>}, %b: !w {graph.role = #graph.parameter<@b>}, %c: !w {graph.role = #graph.parameter<@c>}, %x: !x {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"y">}) {
  %0 = graph.matmul %x, %a batch [] x [] contract [1] x [0] {stages.cost = array<i64: 6000000, 32, 0>} : (!x, !w) -> !x
  %1 = graph.tanh %0 {stages.cost = array<i64: 5000000, 32, 0>} : !x
  %2 = graph.matmul %1, %b batch [] x [] contract [1] x [0] {stages.cost = array<i64: 0, 32, 900>} : (!x, !w) -> !x
  %3 = graph.matmul %2, %c batch [] x [] contract [1] x [0] {stages.cost = array<i64: 30000000, 64, 0>} : (!x, !w) -> !x
  return %3 : !x
}
}
