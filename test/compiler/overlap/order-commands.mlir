// RUN: polyrank-opt %s --order-commands | FileCheck %s
// RUN: polyrank-opt %s --order-commands --start-collectives | FileCheck %s --check-prefix=START
// RUN: polyrank-opt %s --order-commands=report=1 -o %t 2>&1 | FileCheck %s --check-prefix=REPORT

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>

module attributes {rank.machine = #rank.machine<links = [<"data", latency = 10.0, bandwidth = 1.0>, <"tensor", latency = 10.0, bandwidth = 1.0>], rates = [<f32, 100.0>], bandwidth = 10.0>} {
rank.kernel @move(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<4096xf32>
}
rank.kernel @add(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.add %x, %y : tensor<4096xf32>
  rank.return %0 : tensor<4096xf32>
}

// As in a layer's backward under tensor parallelism: a weight's gradient, which
// nobody is in a hurry for, in front of the input's, whose reduction the layer
// below waits for.
// CHECK-LABEL: func.func @put_off
// CHECK: %[[DY:.*]] = rank.launch @move
// CHECK-NEXT: %[[INPUT:.*]] = rank.launch @move(%[[DY]]) {input}
// CHECK-NEXT: %[[SUM:.*]] = rank.all_reduce sum %[[INPUT]]
// CHECK-NEXT: %[[WEIGHT:.*]] = rank.launch @add(%[[DY]], %{{.*}}) {weight}
// CHECK-NEXT: rank.launch @add(%[[DY]], %[[SUM]]) {below}
// START-LABEL: func.func @put_off
// START: rank.launch {{.*}} {input}
// START-NEXT: %[[P:.*]] = rank.all_reduce {{.*}} -> !rank.pending
// START-NEXT: rank.launch {{.*}} {weight}
// START-NEXT: rank.wait %[[P]]
// REPORT: commands in another order, so that reductions have more to hide behind: 0.05 ms instead of 0.05 ms, at least 0.04 ms, gap {{.*}} %; values take at most 0.06 MiB, before 0.06 MiB
func.func @put_off(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
  %dy = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %weight = rank.launch @add(%dy, %x) {weight} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %input = rank.launch @move(%dy) {input} : (tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %input over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %below = rank.launch @add(%dy, %sum) {below} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %below, %weight : tensor<4096xf32>, tensor<4096xf32>
}

// What stands behind the first use, and needs nothing of it, comes forward, with
// the view that it reads. (In front of all that more values are there at once
// than at any time behind.)
// CHECK-LABEL: func.func @bring_forward
// CHECK: rank.all_reduce
// CHECK-NEXT: rank.view
// CHECK-NEXT: rank.launch {{.*}} {other}
// CHECK-NEXT: rank.launch {{.*}} {use}
// CHECK-NEXT: rank.launch {{.*}} {next}
func.func @bring_forward(%x: tensor<4096xf32>, %y: tensor<64x64xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
  %p = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %q = rank.launch @move(%p) : (tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.launch @add(%p, %q) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %s = rank.launch @add(%q, %r) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %t = rank.launch @add(%p, %s) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %a = rank.launch @add(%q, %t) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %a over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %use = rank.launch @add(%a, %sum) {use} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %next = rank.launch @move(%use) {next} : (tensor<4096xf32>) -> tensor<4096xf32>
  %v = rank.view %y offset 0 : (tensor<64x64xf32>) -> tensor<4096xf32>
  %other = rank.launch @move(%v) {other} : (tensor<4096xf32>) -> tensor<4096xf32>
  return %next, %other : tensor<4096xf32>, tensor<4096xf32>
}

// Nothing moves where values would take more memory: `other` would be there
// while three are, the most that there are at once.
// CHECK-LABEL: func.func @memory
// CHECK: rank.all_reduce
// CHECK-NEXT: rank.launch {{.*}} {use}
// CHECK-NEXT: rank.launch {{.*}} {both}
// CHECK-NEXT: rank.launch {{.*}} {other}
func.func @memory(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %a over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %use = rank.launch @add(%a, %sum) {use} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %both = rank.launch @add(%use, %sum) {both} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %other = rank.launch @move(%x) {other} : (tensor<4096xf32>) -> tensor<4096xf32>
  return %both, %other : tensor<4096xf32>, tensor<4096xf32>
}

// Nor in front of somebody who still reads what it overwrites.
// CHECK-LABEL: func.func @readers
// CHECK: rank.all_reduce
// CHECK-NEXT: rank.launch {{.*}} {use}
// CHECK-NEXT: rank.launch {{.*}} {reader}
// CHECK-NEXT: rank.launch {{.*}} {overwrites}
func.func @readers(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
  %p = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %q = rank.launch @move(%p) : (tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.launch @add(%p, %q) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %s = rank.launch @add(%q, %r) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %t = rank.launch @add(%p, %s) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %v = rank.launch @add(%q, %t) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %a = rank.launch @move(%v) : (tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %a over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %use = rank.launch @add(%a, %sum) {use} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %reader = rank.launch @add(%use, %v) {reader} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %new = rank.launch @add(%v, %x) {overwrites} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %reader, %new : tensor<4096xf32>, tensor<4096xf32>
}

// The next value of a parameter comes behind all that read the one that it
// replaces.
// CHECK-LABEL: func.func @next_value
// CHECK: rank.all_reduce
// CHECK-NEXT: rank.launch {{.*}} {use}
// CHECK-NEXT: rank.launch {{.*}} {reader}
// CHECK-NEXT: rank.launch {{.*}} {next}
func.func @next_value(%x: tensor<4096xf32> {graph.role = #graph.input<"x">}, %w: tensor<4096xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<4096xf32> {graph.role = #graph.next<1>}, tensor<4096xf32> {graph.role = #graph.output<"y">}) {
  %p = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %q = rank.launch @move(%p) : (tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.launch @add(%p, %q) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %s = rank.launch @add(%q, %r) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %t = rank.launch @add(%p, %s) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %a = rank.launch @add(%q, %t) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %a over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %use = rank.launch @add(%a, %sum) {use} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %reader = rank.launch @add(%use, %w) {reader} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %new = rank.launch @move(%w) {next} : (tensor<4096xf32>) -> tensor<4096xf32>
  return %new, %reader : tensor<4096xf32>, tensor<4096xf32>
}

// With enough to do in between nothing moves.
// CHECK-LABEL: func.func @enough
// CHECK: rank.launch {{.*}} {first}
// CHECK-NEXT: rank.launch {{.*}} {second}
// CHECK-NEXT: rank.all_reduce
// CHECK-COUNT-13: rank.launch
// CHECK-NEXT: return
func.func @enough(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
  %first = rank.launch @add(%x, %x) {first} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %a = rank.launch @move(%x) {second} : (tensor<4096xf32>) -> tensor<4096xf32>
  %sum = rank.all_reduce sum %a over <#mesh, {"tensor"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = rank.launch @move(%1) : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = rank.launch @move(%2) : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = rank.launch @move(%3) : (tensor<4096xf32>) -> tensor<4096xf32>
  %5 = rank.launch @move(%4) : (tensor<4096xf32>) -> tensor<4096xf32>
  %6 = rank.launch @move(%5) : (tensor<4096xf32>) -> tensor<4096xf32>
  %7 = rank.launch @move(%6) : (tensor<4096xf32>) -> tensor<4096xf32>
  %8 = rank.launch @move(%7) : (tensor<4096xf32>) -> tensor<4096xf32>
  %9 = rank.launch @move(%8) : (tensor<4096xf32>) -> tensor<4096xf32>
  %10 = rank.launch @move(%9) : (tensor<4096xf32>) -> tensor<4096xf32>
  %11 = rank.launch @move(%10) : (tensor<4096xf32>) -> tensor<4096xf32>
  %12 = rank.launch @move(%11) : (tensor<4096xf32>) -> tensor<4096xf32>
  %13 = rank.launch @add(%12, %sum) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %13, %first : tensor<4096xf32>, tensor<4096xf32>
}
}
