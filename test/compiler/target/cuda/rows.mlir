// Rows: threads share what they sum, by shuffles and through shared memory.

// RUN: polyrank-opt %s --form-kernels --lower-kernels > %t.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.mlir
// RUN: FileCheck %s --check-prefix=SOFTMAX < %t.mlir
// RUN: print-cuda-kernels %t.mlir > %t.ptx
// RUN: FileCheck %s --check-prefix=BLOCK < %t.ptx
// RUN: FileCheck %s --check-prefix=WARP < %t.ptx

module attributes {rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>} {
  // A row is read once, and its exponentials stay in registers. Its result may
  // take its place: each thread reads and writes the same elements.
  // SOFTMAX: rank.kernel @kernel.reduce_sub_exp_div{{.*}}in_place = [array<i64: 0>]
  // SOFTMAX: #cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = 192, sharing = 192, kept = 1>
  // BLOCK-LABEL: .entry kernel_reduce_sub_exp_div(
  // BLOCK: .reqntid 192
  // BLOCK: ld.global.v4
  // BLOCK-NOT: ld.global
  // BLOCK: max.ftz.NaN.f32
  // BLOCK: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
  // BLOCK: shfl.sync.bfly.b32 {{.*}}, 8, 31, -1;
  // BLOCK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
  // BLOCK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
  // BLOCK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
  // BLOCK: st.shared
  // BLOCK: bar.sync 0;
  // BLOCK-COUNT-6: ld.shared
  // BLOCK: shfl.sync
  // BLOCK: bar.sync 0;
  // BLOCK-NOT: bar.sync
  // BLOCK: div.rn.ftz.f32
  // BLOCK: st.global.v4
  // BLOCK-NOT: bar.sync
  // BLOCK: ret;
  func.func @softmax(%x: tensor<64x768xf32>) -> tensor<64x768xf32> {
    %0 = graph.softmax %x {dim = 1 : i64} : (tensor<64x768xf32>) -> tensor<64x768xf32>
    return %0 : tensor<64x768xf32>
  }

  // Eight threads share a short row, and a block has sixteen rows. The sum is
  // not written over a row: other threads may still read it.
  // SCHEDULE: rank.kernel @kernel.reduce({{.*}}in_place = [array<i64>]
  // SCHEDULE: #cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = 128, sharing = 8, kept = 1>
  // WARP-LABEL: .entry kernel_reduce(
  // WARP-NOT: bar.sync
  // WARP: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
  // WARP: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
  // WARP: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
  // WARP-NOT: shfl.sync
  // WARP: ret;
  func.func @short(%x: tensor<62x32xf32>) -> tensor<62xf32> {
    %0 = graph.reduce sum %x over [1] : (tensor<62x32xf32>) -> tensor<62xf32>
    return %0 : tensor<62xf32>
  }
}
