// RUN: polyrank-opt %s --shuffle-ops=seed=1 | FileCheck %s
// RUN: polyrank-opt %s --shuffle-ops=seed=1 > %t.1
// RUN: polyrank-opt %s --shuffle-ops=seed=2 > %t.2
// RUN: not diff %t.1 %t.2
// RUN: polyrank-opt %s --shuffle-ops=seed=1 | diff - %t.1
// Another order for another seed, the same for the same one; what reads a value
// stays behind what computes it, and the terminator at the end.

// CHECK-LABEL: func.func @chains
// CHECK-DAG: %[[A:.*]] = graph.exp %{{.*}}
// CHECK-DAG: %[[B:.*]] = graph.tanh %{{.*}}
// CHECK-DAG: %[[C:.*]] = graph.sin %{{.*}}
// CHECK-DAG: %[[D:.*]] = graph.cos %{{.*}}
// CHECK:     graph.neg
// CHECK:     return
func.func @chains(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.exp %x : tensor<4xf32>
  %b = graph.tanh %x : tensor<4xf32>
  %c = graph.sin %x : tensor<4xf32>
  %d = graph.cos %x : tensor<4xf32>
  %e = graph.add %a, %b : tensor<4xf32>
  %f = graph.add %c, %d : tensor<4xf32>
  %g = graph.add %e, %f : tensor<4xf32>
  %h = graph.neg %g : tensor<4xf32>
  return %h : tensor<4xf32>
}
