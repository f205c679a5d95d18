// RUN: polyrank-opt %s --evaluate=global --seed=3 --outputs=%t.npz | FileCheck %s --check-prefix=FIRST
// RUN: polyrank-opt %s --evaluate=global --inputs=%t.npz | FileCheck %s --check-prefix=SECOND
// RUN: not polyrank-opt %s --evaluate=global --expect=%t.npz --seed=4 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: polyrank-opt %s --evaluate=global --expect=%t.npz --seed=4 --tolerance=10
// RUN: not polyrank-opt %s --evaluate=global --inputs=%t.npz --inputs=%t.npz 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not polyrank-opt %s --evaluate=global --inputs=x=absent.npy 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not polyrank-opt %s --evaluate=global --inputs=x.npy 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: sed 's/graph.role = #graph.input<"x">/graph.role = #graph.input<"y">/' %s | not polyrank-opt --evaluate=global --inputs=%t.npz 2>&1 | FileCheck %s --check-prefix=UNREAD
// RUN: sed 's/tensor<2xf32>/tensor<3xf32>/g' %s | not polyrank-opt --evaluate=global --inputs=%t.npz 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not polyrank-opt %s --evaluate=local 2>&1 | FileCheck %s --check-prefix=MODE
// Arguments and results of an evaluation are arrays by name.

// FIRST: x: tensor<2xf32> [0.679174, -0.131189]
// SECOND: x: tensor<2xf32> [-0.679174, 0.131189]
// OTHER: error: x is not what {{.*}}.npz holds: element 0 is
// TWICE: error: array 'x' is given twice
// ABSENT: error: absent.npy: cannot be opened
// NAME: error: x.npy holds one array without a name; say NAME=x.npy
// UNREAD: error: no argument is called 'x'
// SHAPE: error: array 'x' of {{.*}}.npz has shape [2] where the program has [3]
// MODE: error: evaluates globally, distributed, as ranks or by their arena; not 'local'
func.func @negate(%x: tensor<2xf32> {graph.role = #graph.input<"x">}) -> (tensor<2xf32> {graph.role = #graph.output<"x">}) {
  %y = graph.neg %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
