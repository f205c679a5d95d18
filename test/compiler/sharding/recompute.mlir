// RUN: polyrank-opt %s --recompute="what=full" 2>/dev/null | FileCheck %s --check-prefix=FULL
// RUN: polyrank-opt %s --recompute="what=l.1" 2>/dev/null | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --recompute="what=selective" 2>/dev/null | FileCheck %s --check-prefix=SELECTIVE
// RUN: polyrank-opt %s --recompute 2>/dev/null | FileCheck %s --check-prefix=NONE
// RUN: polyrank-opt %s --recompute="what=full" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not polyrank-opt %s --recompute="what=l.1,m.*" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not polyrank-opt %s --recompute="what=[" 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: polyrank-opt %s --evaluate=distributed > %t.before
// RUN: polyrank-opt %s --recompute="what=full" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --recompute="what=full gathers" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --recompute="what=l.1" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --recompute="what=selective" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --partition-stage="recompute=full zero=3 threshold=1" --localize --evaluate=ranks 2>/dev/null | FileCheck %s --check-prefix=RANKS
// What enters a block is kept; the rest of it is computed again, each op once,
// in front of the first op of the backward that needs it.

#mesh = #sharding.mesh<["data"=2]>
!x = tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!ls = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>

// A chain x -> a -> b -> c of l.0, c -> d -> e -> f of l.1. Six tensors of 16
// elements on each device would be kept: of f, which the loss reads, and of what
// enters l.1, two are.
// REMARK: of 384 bytes that each device would keep of a microbatch for its backward, it keeps 128 bytes, and computes the rest again (

// FULL-LABEL: func.func @step
// FULL: %[[A:.*]] = graph.tanh %[[X:arg0]]
// FULL: %[[B:.*]] = graph.exp %[[A]]
// FULL: %[[C:.*]] = graph.sigmoid %[[B]]
// FULL: %[[D:.*]] = graph.tanh %[[C]]
// FULL: %[[E:.*]] = graph.exp %[[D]]
// FULL: %[[F:.*]] = graph.sigmoid %[[E]]
// FULL: graph.seed
// FULL: %[[DF:.*]] = graph.broadcast
// FULL: %[[DE:.*]] = graph.mul %[[DF]], %[[F]]
// FULL: %[[CL:.*]] = graph.after %[[C]], %[[DE]]
// FULL: %[[D2:.*]] = graph.tanh %[[CL]] {graph.scope = "l.1"}
// FULL: %[[E2:.*]] = graph.exp %[[D2]]
// FULL: %[[DD:.*]] = graph.mul %[[DE]], %[[E2]]
// FULL: %[[DC:.*]] = graph.mul %[[DD]], %[[D2]]
// FULL: %[[DB:.*]] = graph.mul %[[DC]], %[[C]]
// FULL: %[[XL:.*]] = graph.after %[[X]], %[[DB]]
// FULL: %[[A2:.*]] = graph.tanh %[[XL]]
// FULL: %[[B2:.*]] = graph.exp %[[A2]]
// FULL: %[[DA:.*]] = graph.mul %[[DB]], %[[B2]]
// FULL: graph.mul %[[DA]], %[[A2]]

// ONE-LABEL: func.func @step
// ONE: graph.seed
// ONE: graph.after
// ONE: graph.tanh
// ONE: graph.exp
// ONE-NOT: graph.after

// NONE-LABEL: func.func @step
// NONE-NOT: graph.after

// Of ops that take few FLOPs all are computed again, from the input on.
// SELECTIVE-LABEL: func.func @step
// SELECTIVE: graph.seed
// SELECTIVE: graph.after %arg0
// SELECTIVE-NOT: graph.after

// UNKNOWN: --recompute m.*: no module of this name computes anything
// WRONG: --recompute [: '[' is no pattern
// RANKS: loss: tensor<f32>

func.func @step(%x: !x {graph.role = #graph.input<"x">}) -> (!s {graph.role = #graph.output<"loss">}, !x {graph.role = #graph.output<"dx">}) {
  %a = graph.tanh %x {graph.scope = "l.0"} : !x
  %b = graph.exp %a {graph.scope = "l.0"} : !x
  %c = graph.sigmoid %b {graph.scope = "l.0"} : !x
  %d = graph.tanh %c {graph.scope = "l.1"} : !x
  %e = graph.exp %d {graph.scope = "l.1"} : !x
  %f = graph.sigmoid %e {graph.scope = "l.1"} : !x
  %part = graph.reduce sum %f over [0, 1] : (!x) -> !ls
  %loss = sharding.reshard %part : (!ls) -> !s
  %seed = graph.seed 1.0 : !s
  %df = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
  %de = graph.mul %df, %f : !x
  %dd = graph.mul %de, %e : !x
  %dc = graph.mul %dd, %d : !x
  %db = graph.mul %dc, %c : !x
  %da = graph.mul %db, %b : !x
  %dx = graph.mul %da, %a : !x
  return %loss, %dx : !s, !x
}
