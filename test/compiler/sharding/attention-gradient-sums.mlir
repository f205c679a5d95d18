// RUN: polyrank-opt %s --evaluate=global --seed=1 --outputs=%t.npz
// RUN: polyrank-opt %s --propagate-layouts --evaluate=distributed --seed=1 --expect=%t.npz --tolerance=1e-9
// RUN: polyrank-opt %s --propagate-layouts --decompose-composites --plan-reshards -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: polyrank-opt %t.mlir --evaluate=distributed --seed=1 --expect=%t.npz --tolerance=1e-9

// Each device has a block of the queries, and so a part of the gradients of all
// keys and values. These are wanted in blocks too, so the parts are reduced and
// scattered: an all-reduce would send twice as much.

#mesh = #sharding.mesh<["seq"=2]>
#rows = #sharding.constraint<#sharding.layout<#mesh, [{}, {}, {"seq"}, {}]> from "[-,-,seq,-]">
!x = tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @gradient
// CHECK-NOT: sharding.all_reduce
// CHECK-COUNT-2: sharding.reduce_scatter
// CHECK-NOT: sharding.all_reduce
module attributes {sharding.mesh = #mesh} {
func.func @gradient(%q: !x {graph.role = #graph.input<"q">, sharding.constraint = #rows},
    %k: !x {graph.role = #graph.input<"k">, sharding.constraint = #rows},
    %v: !x {graph.role = #graph.input<"v">, sharding.constraint = #rows},
    %d: !x {graph.role = #graph.input<"d">, sharding.constraint = #rows}) -> (!x {graph.role = #graph.output<"dq">}, !x {graph.role = #graph.output<"dk">}, !x {graph.role = #graph.output<"dv">}) {
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true} : (!x, !x, !x) -> (!x, tensor<1x2x8xf32>)
  %dq, %dk, %dv = graph.attention_grad %d, %q, %k, %v, %y, %lse {scale = 0.5 : f64, causal = true} : (!x, !x, !x, !x, !x, tensor<1x2x8xf32>) -> (!x, !x, !x)
  // What reads them by blocks.
  %nq = graph.mul %dq, %q : !x
  %nk = graph.mul %dk, %k : !x
  %nv = graph.mul %dv, %v : !x
  return %nq, %nk, %nv : !x, !x, !x
}
}
