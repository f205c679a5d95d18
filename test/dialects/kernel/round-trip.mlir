// RUN: polyrank-opt %s | polyrank-opt | FileCheck %s
// RUN: polyrank-opt %s -mlir-print-op-generic | polyrank-opt | FileCheck %s
// RUN: polyrank-opt %s -emit-bytecode | polyrank-opt | FileCheck %s

// CHECK-LABEL: func.func @row
// CHECK: %0 = kernel.loops [8, reduce 16] (%arg0 : tensor<8x16xf32>) -> tensor<8x16xf32> schedule(#cpu.schedule<row, items = [0], vector = 1, lanes = 16, kept = [3]>) {
// CHECK-NEXT: %1 = kernel.load %arg0[d0 * 16 + d1] : tensor<8x16xf32>
// CHECK-NEXT: %2 = kernel.reduce max %1 : f32
// CHECK-NEXT: %3 = arith.subf %1, %2 : f32
// CHECK-NEXT: %4 = math.exp %3 : f32
// CHECK-NEXT: kernel.store %4 to 0[d0 * 16 + d1] : f32
func.func @row(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = kernel.loops [8, reduce 16] (%x : tensor<8x16xf32>) -> tensor<8x16xf32>
      schedule(#cpu.schedule<row, kept = [3], lanes = 16, items = [0], vector = 1>) {
    %0 = kernel.load %x[16 * d0 + d1] : tensor<8x16xf32>
    %1 = kernel.reduce max %0 : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    kernel.store %3 to 0[d1 + 16 * d0] : f32
  }
  return %y : tensor<8x16xf32>
}

// Every op, and every part of a schedule.
// CHECK-LABEL: func.func @all
// CHECK: %0:2 = kernel.loops [4, 6] (%arg0, %arg1 : tensor<5x6xf32>, tensor<4xi64>) -> (tensor<24xf32>, tensor<24xi32>) schedule(#cpu.schedule<map, items = [0], vector = 1, lanes = 16, block = 4096, tiled = 0, tile = 8, reductions = [2], part = 64, rows = 3>) {
// CHECK: kernel.load %arg1[d0] : tensor<4xi64>
// CHECK: kernel.in_range [-1 + d1] from 0 to 5
// CHECK: kernel.load %arg0[-1 + d1] + [%{{.*}} * 6] if %{{.*}} : tensor<5x6xf32>
// CHECK: kernel.index [7]
// CHECK: kernel.philox 3(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK: kernel.store %{{.*}} to 1[d0 * 6 + d1] : i32
func.func @all(%t: tensor<5x6xf32>, %i: tensor<4xi64>) -> (tensor<24xf32>, tensor<24xi32>) {
  %y:2 = kernel.loops [4, 6] (%t, %i : tensor<5x6xf32>, tensor<4xi64>) -> (tensor<24xf32>, tensor<24xi32>)
      schedule(#cpu.schedule<map, items = [0], vector = 1, lanes = 16, block = 4096, tiled = 0, tile = 8, reductions = [2], part = 64, rows = 3>) {
    %0 = kernel.load %i[d0] : tensor<4xi64>
    %1 = kernel.in_range [d1 - 1] from 0 to 5
    %2 = kernel.load %t[d1 - 1] + [%0 * 6] if %1 : tensor<5x6xf32>
    %3 = kernel.index [7]
    %4 = kernel.philox 3(%3, %0, %0, %0)
    kernel.store %2 to 0[d0 * 6 + d1] : f32
    kernel.store %4 to 1[d0 * 6 + d1] : i32
  }
  return %y#0, %y#1 : tensor<24xf32>, tensor<24xi32>
}

// CHECK-LABEL: func.func @scatter
// CHECK: kernel.scatter_add %{{.*}} at %{{.*}} to [d1] stride 4 limit 10 init(%arg2 : tensor<10x4xf32>) : i64, f32
// CHECK: kernel.scatter_add %{{.*}} at %{{.*}} to [d1] stride 4 limit 10 : i64, f32
func.func @scatter(%i: tensor<5xi64>, %u: tensor<5x4xf32>, %into: tensor<10x4xf32>) -> (tensor<10x4xf32>, tensor<10x4xf32>) {
  %0 = kernel.loops [reduce 5, 4] (%i, %u, %into : tensor<5xi64>, tensor<5x4xf32>, tensor<10x4xf32>) -> tensor<10x4xf32> {
    %2 = kernel.load %i[d0] : tensor<5xi64>
    %3 = kernel.load %u[d0 * 4 + d1] : tensor<5x4xf32>
    kernel.scatter_add %3 at %2 to [d1] stride 4 limit 10 init(%into : tensor<10x4xf32>) : i64, f32
  }
  %1 = kernel.loops [reduce 5, 4] (%i, %u : tensor<5xi64>, tensor<5x4xf32>) -> tensor<10x4xf32> {
    %2 = kernel.load %i[d0] : tensor<5xi64>
    %3 = kernel.load %u[d0 * 4 + d1] : tensor<5x4xf32>
    kernel.scatter_add %3 at %2 to [d1] stride 4 limit 10 : i64, f32
  }
  return %0, %1 : tensor<10x4xf32>, tensor<10x4xf32>
}

// A sum of narrow floats has a wider accumulator.
// CHECK-LABEL: func.func @accumulator
// CHECK: kernel.reduce sum %{{.*}} : bf16 into f32
// CHECK-NEXT: kernel.store %{{.*}} to 0[0] : f32
func.func @accumulator(%x: tensor<64xbf16>) -> tensor<1xf32> {
  %y = kernel.loops [reduce 64] (%x : tensor<64xbf16>) -> tensor<1xf32> {
    %0 = kernel.load %x[d0] : tensor<64xbf16>
    %1 = kernel.reduce sum %0 : bf16 into f32
    kernel.store %1 to 0[0] : f32
  }
  return %y : tensor<1xf32>
}
