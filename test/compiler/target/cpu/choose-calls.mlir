// RUN: polyrank-opt %s -split-input-file --form-gemms --choose-calls=measure=false | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --form-gemms --choose-calls | FileCheck %s --check-prefix=MEASURED
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 polyrank-opt %s -split-input-file --form-gemms --choose-calls | FileCheck %s --check-prefix=WITHOUT

module attributes {rank.machine = #rank.machine<#cpu.target<"native">, threads = 2>} {
// A single product goes to the BLAS call, those of a batch to the primitive.
// CHECK-LABEL: func.func @small
// CHECK: rank.gemm {{.*}}call = #cpu.call<sgemm>
// CHECK: rank.gemm {{.*}}call = #cpu.call<matmul>
func.func @small(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>, %p: tensor<3x8x4xf32>, %q: tensor<3x4x8xf32>) -> (tensor<8x8xf32>, tensor<3x8x8xf32>) {
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %p, %q batch [0] x [0] contract [2] x [1] : (tensor<3x8x4xf32>, tensor<3x4x8xf32>) -> tensor<3x8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<3x8x8xf32>
}

// Products of one structure have one call, whichever is faster here.
// MEASURED-LABEL: func.func @large
// MEASURED: rank.gemm {{.*}}call = #cpu.call<[[CALL:.+]]>
// MEASURED: rank.gemm {{.*}}call = #cpu.call<[[CALL]]>
func.func @large(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.matmul %y, %x batch [] x [] contract [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0, %1 : tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----
// Products of narrow elements are left to the primitive where the machine has such
// products, and else they are widened; a plan for a level of x86-64 widens them.
module attributes {rank.machine = #rank.machine<#cpu.target<"x86-64-v3">, threads = 2>} {
// CHECK-LABEL: func.func @narrow
// CHECK: rank.gemm {{.*}}call = #cpu.call<widened>
// CHECK: rank.gemm {{.*}}call = #cpu.call<widened>
// MEASURED-LABEL: func.func @narrow
// MEASURED: rank.gemm {{.*}}call = #cpu.call<widened{{.*}}>
// MEASURED: rank.gemm {{.*}}call = #cpu.call<widened{{.*}}>
func.func @narrow(%x: tensor<512x512xbf16>, %y: tensor<512x512xbf16>, %p: tensor<3x8x4xf16>, %q: tensor<3x4x8xf16>) -> (tensor<512x512xf32>, tensor<3x8x8xf16>) {
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xf32>
  %1 = graph.matmul %p, %q batch [0] x [0] contract [2] x [1] : (tensor<3x8x4xf16>, tensor<3x4x8xf16>) -> tensor<3x8x8xf16>
  return %0, %1 : tensor<512x512xf32>, tensor<3x8x8xf16>
}
}

// -----
module attributes {rank.machine = #rank.machine<#cpu.target<"native">>} {
// A machine without instructions for bf16 has no other choice.
// WITHOUT-LABEL: func.func @own_machine
// WITHOUT: rank.gemm {{.*}}call = #cpu.call<widened{{.*}}>
// MEASURED-LABEL: func.func @own_machine
// MEASURED: rank.gemm {{.*}}call = #cpu.call<{{(matmul|widened).*}}>
func.func @own_machine(%x: tensor<512x512xbf16>, %y: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %0 = graph.matmul %x, %y batch [] x [] contract [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  return %0 : tensor<512x512xbf16>
}
}
