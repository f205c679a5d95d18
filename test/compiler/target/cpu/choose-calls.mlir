// RUN: polyrank-opt %s --form-gemms --choose-calls=measure=false | FileCheck %s
// RUN: polyrank-opt %s --form-gemms --choose-calls | FileCheck %s --check-prefix=MEASURED

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
