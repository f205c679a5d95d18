// What lies along another variable than the result is read along it into shared
// memory, whose lines have one place more, and written along the result.

// RUN: polyrank-opt %s --form-kernels --lower-kernels > %t.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.mlir
// RUN: FileCheck %s --check-prefix=TURNED < %t.mlir
// RUN: print-cuda-kernels %t.mlir | FileCheck %s --check-prefix=PTX

module attributes {rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>} {
  // TURNED: kernel.loops [64, 96]{{.*}}#cuda.schedule<map, items = [0], vector = 1, tiled = 0, threads = 256>
  // PTX: .entry kernel_transpose
  // PTX: .shared .align 4 .b8 kernel_transpose{{.*}}_slots0[4224];
  // PTX-COUNT-4: ld.global.b32
  // PTX-NOT: ld.global
  // PTX: bar.sync 0;
  // PTX-COUNT-4: ld.shared.b32
  // PTX: st.global.b32
  func.func @turn(%x: tensor<96x64xf32>) -> tensor<64x96xf32> {
    %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<96x64xf32>) -> tensor<64x96xf32>
    %1 = graph.exp %0 : tensor<64x96xf32>
    return %1 : tensor<64x96xf32>
  }

  // The windows of a convolution are read along the channels, nine times 32 of
  // them, and written as 288 adjacent values.
  // SCHEDULE: kernel.loops [2, 6, 384, 3, 3]{{.*}}#cuda.schedule<map, items = [0, 1, 2, 3], vector = 4, tiled = 2, inside = [3], threads = 288>
  func.func @windows(%x: tensor<2x8x8x64xf32>) -> tensor<2x6x6x64x3x3xf32> {
    %0 = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<2x8x8x64xf32>) -> tensor<2x6x8x64x3xf32>
    %1 = graph.unfold %0 {dim = 2 : i64, size = 3 : i64, stride = 1 : i64, dilation = 1 : i64, low = 0 : i64, high = 0 : i64, value = 0.0 : f64} : (tensor<2x6x8x64x3xf32>) -> tensor<2x6x6x64x3x3xf32>
    return %1 : tensor<2x6x6x64x3x3xf32>
  }
}
