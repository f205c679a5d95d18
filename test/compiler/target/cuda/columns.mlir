// Columns: a warp reads 32 of them, and warps share the rows. Long sums are cut
// into parts first, over any dims, so that there are blocks enough.

// RUN: polyrank-opt %s --form-kernels --lower-kernels > %t.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.mlir
// RUN: print-cuda-kernels %t.mlir | FileCheck %s --check-prefix=PTX

module attributes {rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>} {
  // Sixteen parts of 512 rows, and then the sum of the parts.
  // SCHEDULE: kernel.loops [reduce 16, 768]{{.*}}#cuda.schedule<column, vector = 1, reductions = [0], threads = 256, sharing = 8>
  // SCHEDULE: kernel.loops [16, reduce 512, 768]{{.*}}#cuda.schedule<column, items = [0], vector = 2, reductions = [1], threads = 512, sharing = 16>
  // PTX-LABEL: .entry kernel_reduce(
  // PTX: ld.global.b32
  // PTX: st.shared
  // PTX: bar.sync 0;
  // PTX: st.global.b32
  func.func @columns(%x: tensor<8192x768xf32>) -> tensor<768xf32> {
    %0 = graph.reduce sum %x over [0] : (tensor<8192x768xf32>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}
