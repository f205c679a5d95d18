// What lower-precision refuses.

// RUN: not polyrank-opt %s --lower-precision="precision=bf61" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: --precision bf61: there are fp32, bf16 and fp16
// RUN: not polyrank-opt %s --lower-precision="precision=bf16 fp32=heat" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: --fp32 heat: no module of this name computes anything; nearest: 'head'
// RUN: not polyrank-opt %s --lower-precision="precision=bf16 fp32=head,h[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// PATTERN: --fp32 head,h[: 'h[' is no pattern
// RUN: not polyrank-opt %s --lower-precision="fp32=head" 2>&1 | FileCheck %s --check-prefix=ALL
// ALL: --fp32 head: all modules compute in f32 (--precision fp32)
// RUN: not polyrank-opt %s --lower-precision="reduce-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=BELOW
// BELOW: --reduce-dtype bf16 is below --precision fp32: products would keep digits that their gradients lose; give --precision bf16
// RUN: not polyrank-opt %s --lower-precision="precision=bf16 reduce-dtype=fp16" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: --reduce-dtype fp16 does not hold what --precision bf16 computes; give bf16 or fp32
// RUN: not polyrank-opt %s --lower-precision="precision=bf16 reduce-dtype=fp8" 2>&1 | FileCheck %s --check-prefix=REDUCE
// REDUCE: --reduce-dtype fp8: there are fp32, bf16 and fp16
// RUN: echo "func.func @forward() { return }" | not polyrank-opt --lower-precision="precision=bf16" 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: --precision bf16: there is no function @step (build-step)

func.func @step(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %x batch [] x [] contract [1] x [0] {graph.scope = "head"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
