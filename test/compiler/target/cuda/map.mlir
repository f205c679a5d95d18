// Maps: a thread reads and writes 16 bytes at once.

// RUN: polyrank-opt %s --form-kernels --lower-kernels > %t.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.mlir
// RUN: print-cuda-kernels %t.mlir | FileCheck %s --check-prefix=PTX

module attributes {rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>} {
  // SCHEDULE-LABEL: rank.kernel @kernel.add_mul
  // SCHEDULE-SAME: in_place
  // SCHEDULE: #cuda.schedule<map, vector = 0, lanes = 4, threads = 256>
  func.func @add(%x: tensor<64x48xf32>, %y: tensor<64x48xf32>) -> tensor<64x48xf32> {
    %0 = graph.add %x, %y : tensor<64x48xf32>
    %1 = graph.mul %0, %x : tensor<64x48xf32>
    return %1 : tensor<64x48xf32>
  }
}

// PTX: .version 7.0
// PTX: .target sm_80
// PTX-LABEL: .visible .entry kernel_add_mul(
// PTX: .reqntid 256
// PTX-NOT: ld.global.f32
// PTX-COUNT-2: ld.global.v4
// PTX-NOT: fma
// PTX: add.rn.ftz.f32
// PTX: mul.rn.ftz.f32
// PTX: st.global.v4
