// Scatters: a warp looks for earlier updates with its index; the first one adds
// them all. There are no atomics.

// RUN: polyrank-opt %s --form-kernels --lower-kernels > %t.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.mlir
// RUN: print-cuda-kernels %t.mlir | FileCheck %s --check-prefix=PTX

module attributes {rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>} {
  // The table itself may be the result.
  // SCHEDULE: rank.kernel {{.*}}in_place = [array<i64: 2>]
  // SCHEDULE: #cuda.schedule<scatter, vector = 1, lanes = 4, reductions = [0], threads = 256>
  // PTX-LABEL: .entry kernel_scatter_add(
  // PTX-NOT: atom
  // PTX-NOT: red.
  // PTX: vote.sync.ballot.b32
  // PTX: ld.global.v4
  // PTX: vote.sync.ballot.b32
  // PTX: st.global.v4
  func.func @embedding(%i: tensor<40xi64>, %u: tensor<40x64xf32>, %t: tensor<100x64xf32>) -> tensor<100x64xf32> {
    %0 = graph.scatter_add %i, %u {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<40xi64>, tensor<40x64xf32>) -> tensor<100x64xf32>
    %1 = graph.add %0, %t : tensor<100x64xf32>
    return %1 : tensor<100x64xf32>
  }
}
