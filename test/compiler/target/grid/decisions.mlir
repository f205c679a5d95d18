// What the second target decides otherwise than a CPU, and that results stay the
// same: the parts of long sums, the places of results, and what is one kernel.

// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz
// RUN: polyrank-opt %s --form-loops --form-gemms --form-kernels --lower-kernels --choose-calls --assign-buffers --check-buffers > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=PLACES < %t.mlir
// RUN: polyrank-opt %t.mlir --evaluate=ranks --expect=%t.npz
// RUN: polyrank-opt %t.mlir --evaluate=arena --expect=%t.npz

// Down the columns: 70 values in eight parts of nine, of which the last is filled
// up with two zeros.
// CHECK-LABEL: func.func @columns
// CHECK: %[[PARTS:.+]] = rank.launch {{.*}} : (tensor<70x3xf32>) -> tensor<8x3xf32>
// CHECK: rank.launch {{.*}}(%[[PARTS]]) {{.*}} : (tensor<8x3xf32>) -> tensor<3xf32>
func.func @columns(%x: tensor<70x3xf32>) -> (tensor<3xf32> {graph.role = #graph.output<"columns">}) {
  %0 = graph.reduce sum %x over [0] : (tensor<70x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Over dims that lie apart, as a batch norm sums: of 40 values a part has at most
// seven, and the last two dims, of eight values, are cut into seven and one.
// CHECK-LABEL: func.func @apart
// CHECK: %[[PARTS:.+]] = rank.launch {{.*}} : (tensor<5x3x8xf32>) -> tensor<5x3x2xf32>
// CHECK: rank.launch {{.*}}(%[[PARTS]]) {{.*}} : (tensor<5x3x2xf32>) -> tensor<3xf32>
func.func @apart(%x: tensor<5x3x2x4xf32>) -> (tensor<3xf32> {graph.role = #graph.output<"apart">}) {
  %0 = graph.reduce sum %x over [0, 2, 3] : (tensor<5x3x2x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// A part of ten values holds three whole rows of three, of 33 rows.
// CHECK-LABEL: func.func @whole_rows
// CHECK: %[[ROWS:.+]] = rank.view {{.*}} : (tensor<33x2x3xf32>) -> tensor<11x3x2x3xf32>
// CHECK: %[[PARTS:.+]] = rank.launch {{.*}}(%[[ROWS]]) {{.*}} -> tensor<11x2xf32>
// CHECK: rank.launch {{.*}}(%[[PARTS]]) {{.*}} : (tensor<11x2xf32>) -> tensor<2xf32>
func.func @whole_rows(%x: tensor<33x2x3xf32>) -> (tensor<2xf32> {graph.role = #graph.output<"whole_rows">}) {
  %0 = graph.reduce sum %x over [0, 2] : (tensor<33x2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// The parts of a sum of narrow floats are f32.
// CHECK-LABEL: func.func @narrow
// CHECK: rank.launch {{.*}} : (tensor<70xbf16>) -> tensor<8xf32>
// CHECK: rank.launch {{.*}} : (tensor<8xf32>) -> tensor<f32>
// CHECK: rank.launch {{.*}} : (tensor<f32>) -> tensor<bf16>
func.func @narrow(%x: tensor<70xbf16>) -> (tensor<bf16> {graph.role = #graph.output<"narrow">}) {
  %0 = graph.reduce sum %x over [0] : (tensor<70xbf16>) -> tensor<bf16>
  return %0 : tensor<bf16>
}

// Integers, and what is too short or has enough results, have one kernel.
// CHECK-LABEL: func.func @counts
// CHECK-COUNT-2: rank.launch
// CHECK-NOT: rank.launch
func.func @counts(%x: tensor<30xi64>) -> (tensor<i64> {graph.role = #graph.output<"counts">}) {
  %0 = graph.reduce sum %x over [0] : (tensor<30xi64>) -> tensor<i64>
  return %0 : tensor<i64>
}
// CHECK-LABEL: func.func @many
// CHECK-COUNT-1: rank.launch
// CHECK-NOT: rank.launch
func.func @many(%x: tensor<70x64xf32>) -> (tensor<64xf32> {graph.role = #graph.output<"many">}) {
  %0 = graph.reduce sum %x over [0] : (tensor<70x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A normalized row may take the place of the row. Its scale, which all threads of
// the row read, may not become the row's norm: another thread may still read it. A
// CPU, where one thread has the whole row, would allow it.
// PLACES: rank.kernel @kernel.mul_reduce({{.*}}) -> (tensor<128xf32>, tensor<128x16xf32>) attributes {in_place = [array<i64>, array<i64: 0>]}
// CHECK-LABEL: func.func @norm
func.func @norm(%x: tensor<128x16xf32>, %scale: tensor<128xf32>) -> (tensor<128x16xf32> {graph.role = #graph.output<"normed">}, tensor<128xf32> {graph.role = #graph.output<"norms">}) {
  %0 = graph.mul %x, %x : tensor<128x16xf32>
  %1 = graph.reduce sum %0 over [1] : (tensor<128x16xf32>) -> tensor<128xf32>
  %2 = graph.mul %1, %scale : tensor<128xf32>
  %3 = graph.broadcast %2 {dims = array<i64: 0>} : (tensor<128xf32>) -> tensor<128x16xf32>
  %4 = graph.mul %x, %3 : tensor<128x16xf32>
  return %4, %2 : tensor<128x16xf32>, tensor<128xf32>
}

// The sums of few rows and an update are kernels of their own.
// CHECK-LABEL: func.func @update
// CHECK-COUNT-2: rank.launch
// CHECK-NOT: rank.launch
func.func @update(%x: tensor<8x5xf32>, %w: tensor<5xf32>) -> (tensor<5xf32> {graph.role = #graph.output<"updated">}) {
  %0 = graph.reduce sum %x over [0] : (tensor<8x5xf32>) -> tensor<5xf32>
  %1 = graph.sub %w, %0 : tensor<5xf32>
  return %1 : tensor<5xf32>
}
