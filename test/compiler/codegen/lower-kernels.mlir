// RUN: polyrank-opt %s --form-kernels --lower-kernels --split-input-file | FileCheck %s

// A row is read, its maximum and sum are taken, and the exponentials that two
// passes need are kept. What the result may take the place of is written down.

// CHECK: rank.kernel {{.*}}in_place = [array<i64: 0>]
// CHECK: kernel.loops [256, reduce 1024] (%[[X:.*]] : tensor<256x1024xf32>) -> tensor<256x1024xf32>
// CHECK-SAME: schedule(#cpu.schedule<row, items = [0], vector = 1, lanes = 64, kept = [3], grain = 4>)
// CHECK-NEXT: %[[E:.*]] = kernel.load %[[X]][d0 * 1024 + d1]
// CHECK-NEXT: %[[MAX:.*]] = kernel.reduce max %[[E]]
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[E]], %[[MAX]]
// CHECK-NEXT: %[[P:.*]] = math.exp %[[D]]
// CHECK-NEXT: %[[SUM:.*]] = kernel.reduce sum %[[P]]
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[P]], %[[SUM]]
// CHECK-NEXT: kernel.store %[[Q]] to 0[d0 * 1024 + d1]
func.func @softmax(%x: tensor<256x1024xf32>) -> tensor<256x1024xf32> {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  return %0 : tensor<256x1024xf32>
}

// -----
// A long sum down columns is added in parts.

// CHECK: kernel.loops [reduce 4096, 64]
// CHECK-SAME: #cpu.schedule<column, vector = 1, lanes = 16, block = 16, reductions = [0], part = 64>
func.func @columns(%x: tensor<4096x64xf32>) -> tensor<64xf32> {
  %0 = graph.reduce sum %x over [0] : (tensor<4096x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----
// Shape ops are index arithmetic. Both dims of the first result are one loop.

// CHECK: kernel.loops [128] ({{.*}}) -> tensor<8x16xf32>
// CHECK: kernel.loops [64, 32] ({{.*}}) -> tensor<64x32xf32> schedule({{.*}}tiled = 0, tile = 16, grain = 4>)
// CHECK-NEXT: kernel.load %{{.*}}[d0 + d1 * 64]
// CHECK-NEXT: kernel.store %{{.*}} to 0[d0 * 32 + d1]
func.func @shapes(%x: tensor<32x64xf32>, %y: tensor<2x64xf32>) -> (tensor<64x32xf32>, tensor<8x16xf32>) {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  %1 = graph.reshape %y : (tensor<2x64xf32>) -> tensor<8x16xf32>
  %2 = graph.neg %1 : tensor<8x16xf32>
  return %0, %2 : tensor<64x32xf32>, tensor<8x16xf32>
}

// -----
// What an elementwise op computes is ops of arith and math. What no float has a
// name for is made of others: a quotient of integers is 0 where the divisor is.

// CHECK: math.exp
// CHECK: arith.negf
// CHECK-LABEL: func.func @sigmoid
func.func @sigmoid(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x : tensor<64xf32>
  %1 = graph.neg %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[ISZERO:.*]] = arith.cmpi eq, %{{.*}}, %[[ZERO]]
// CHECK: arith.divsi
// CHECK: arith.select %[[ISZERO]], %[[ZERO]],
func.func @quotient(%x: tensor<64xi32>, %y: tensor<64xi32>) -> tensor<64xi32> {
  %0 = graph.div %x, %y : tensor<64xi32>
  return %0 : tensor<64xi32>
}

// -----
// A sum of narrow floats is formed in f32 and rounded once; between the two
// kernels of a long one it stays f32.

// CHECK: kernel.reduce sum %{{.*}} : bf16 into f32
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
func.func @narrow(%x: tensor<8x64xbf16>) -> tensor<8xbf16> {
  %0 = graph.reduce sum %x over [1] : (tensor<8x64xbf16>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// -----
// CHECK: kernel.loops [reduce 128] (%{{.*}} : tensor<128xf32>) -> tensor<bf16>
// CHECK: kernel.reduce sum %{{.*}} : f32
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
// CHECK: kernel.loops {{.*}} (%{{.*}} : tensor<1024x1024xbf16>) -> tensor<128xf32>
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK-NEXT: kernel.reduce sum %{{.*}} : f32
func.func @longNarrow(%x: tensor<1024x1024xbf16>) -> tensor<bf16> {
  %0 = graph.reduce sum %x over [0, 1] : (tensor<1024x1024xbf16>) -> tensor<bf16>
  return %0 : tensor<bf16>
}

// -----
// A formula of narrow floats is computed in f32 and rounded once; ops that
// follow each other in a kernel are each rounded.
// CHECK: kernel.loops [64] (%{{.*}} : tensor<64xbf16>) -> tensor<64xbf16>
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: math.exp
// CHECK: arith.divf %{{.*}} : f32
// CHECK-NEXT: %[[Y:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: %[[AGAIN:.*]] = arith.extf %[[Y]] : bf16 to f32
// CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[AGAIN]], %[[X]] : f32
// CHECK-NEXT: arith.truncf %[[Z]] : f32 to bf16
func.func @roundedFormulas(%x: tensor<64xbf16>) -> tensor<64xbf16> {
  %0 = graph.sigmoid %x : tensor<64xbf16>
  %1 = graph.mul %0, %x : tensor<64xbf16>
  return %1 : tensor<64xbf16>
}
