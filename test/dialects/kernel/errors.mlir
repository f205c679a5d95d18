// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every numbered constraint of the kernel ops, and what their text refuses.

func.func @size(%x: tensor<4xf32>) {
  // expected-error @+1 {{[1] has a variable of size 0}}
  %0 = kernel.loops [4, 0] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @variable(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[1] mentions 2 variables of 1}}
    %1 = kernel.load %x[d1] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @body(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[2] is no op of elements in kernel.loops}}
    %2 = graph.neg %x : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @outside(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[2] reads what is no operand of kernel.loops}}
    %1 = kernel.load %y[d0] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @no_result(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[3] writes to result 1, which there is not}}
    kernel.store %1 to 1[d0] : f32
  }
  return
}

// -----
func.func @stored_twice(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
    // expected-error @+1 {{[3] writes to result 0, which is stored twice}}
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @not_stored(%x: tensor<4xf32>) {
  // expected-error @+1 {{[3] has a result that is not stored}}
  %0:2 = kernel.loops [4] (%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
// Elements 0, 2, 4, 6 of four.
func.func @not_dense(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[3] does not write each of 4 elements once}}
    kernel.store %1 to 0[d0 * 2] : f32
  }
  return
}

// -----
// Each element once for every point of d1.
func.func @too_often(%x: tensor<4xf32>) {
  %0 = kernel.loops [4, 3] (%x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[3] does not write each of 4 elements once}}
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @scatter_and_store(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  // expected-error @+1 {{[3] with kernel.scatter_add has one result and nothing else that writes}}
  %0 = kernel.loops [4] (%i, %x : tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf32>
    kernel.store %2 to 0[d0] : f32
    kernel.scatter_add %2 at %1 to [0] stride 1 limit 4 : i64, f32
  }
  return
}

// -----
func.func @before_the_tensor(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[4] reads elements -1 to 2 of 4}}
    %1 = kernel.load %x[d0 - 1] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @behind_the_tensor(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[4] reads elements 1 to 4 of 4}}
    %1 = kernel.load %x[d0 + 1] : tensor<4xf32>
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @scatter_behind(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %0 = kernel.loops [reduce 4] (%i, %x : tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[4] adds to elements 0 to 4 of 4}}
    kernel.scatter_add %2 at %1 to [0] stride 1 limit 5 : i64, f32
  }
  return
}

// -----
func.func @scatter_before(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %0 = kernel.loops [reduce 4] (%i, %x : tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[4] adds to elements -1 to 2 of 4}}
    kernel.scatter_add %2 at %1 to [2] stride -1 limit 4 : i64, f32
  }
  return
}

// -----
func.func @load_type(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[1] gives 'f16' where the tensor has 'f32'}}
    %1 = "kernel.load"(%x) <{offset = array<i64: 0, 1>, strides = [], operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<4xf32>) -> f16
    %2 = arith.extf %1 : f16 to f32
    kernel.store %2 to 0[d0] : f32
  }
  return
}

// -----
func.func @load_strides(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{[1] has 0 indices and 1 strides}}
    %1 = "kernel.load"(%x) <{offset = array<i64: 0, 1>, strides = [4], operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<4xf32>) -> f32
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @store_type(%x: tensor<4xf32>) {
  %0 = kernel.loops [4] (%x : tensor<4xf32>) -> tensor<4xf16> {
    %1 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[1] writes 'f32' to a result of 'f16'}}
    kernel.store %1 to 0[d0] : f32
  }
  return
}

// -----
func.func @scatter_type(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %0 = kernel.loops [reduce 4] (%i, %x : tensor<4xi64>, tensor<4xf32>) -> tensor<4xf16> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[1] adds 'f32' to a result of 'f16'}}
    kernel.scatter_add %2 at %1 to [0] stride 1 limit 4 : i64, f32
  }
  return
}

// -----
func.func @scatter_init(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %0 = kernel.loops [reduce 4] (%i, %x : tensor<4xi64>, tensor<4xf32>) -> tensor<8xf32> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf32>
    // expected-error @+1 {{[1] begins with 'tensor<4xf32>' where the result is 'tensor<8xf32>'}}
    kernel.scatter_add %2 at %1 to [0] stride 1 limit 8 init(%x : tensor<4xf32>) : i64, f32
  }
  return
}

// -----
func.func @linear(%x: tensor<4xf32>) {
  %0 = kernel.loops [2, 2] (%x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{is not linear in the loop variables}}
    %1 = kernel.load %x[d0 floordiv 2] : tensor<4xf32>
    kernel.store %1 to 0[d0 * 2 + d1] : f32
  }
  return
}

// -----
func.func @accumulatorOfIntegers(%x: tensor<4xi32>) {
  %0 = kernel.loops [reduce 4] (%x : tensor<4xi32>) -> tensor<1xi64> {
    %1 = kernel.load %x[d0] : tensor<4xi32>
    // expected-error @+1 {{[1] reduces 'i32' into 'i64'}}
    %2 = kernel.reduce sum %1 : i32 into i64
    kernel.store %2 to 0[0] : i64
  }
  return
}

// -----
func.func @narrowerAccumulator(%x: tensor<4xf64>) {
  %0 = kernel.loops [reduce 4] (%x : tensor<4xf64>) -> tensor<1xf32> {
    %1 = kernel.load %x[d0] : tensor<4xf64>
    // expected-error @+1 {{[1] reduces 'f64' into 'f32'}}
    %2 = kernel.reduce sum %1 : f64 into f32
    kernel.store %2 to 0[0] : f32
  }
  return
}

// -----
func.func @narrowAccumulator(%x: tensor<4xbf16>) {
  %0 = kernel.loops [reduce 4] (%x : tensor<4xbf16>) -> tensor<1xbf16> {
    %1 = kernel.load %x[d0] : tensor<4xbf16>
    // expected-error @+1 {{[2] reduces 'bf16' into 'bf16', in which sums lose summands: its accumulator is at least f32}}
    %2 = kernel.reduce sum %1 : bf16
    kernel.store %2 to 0[0] : bf16
  }
  return
}

// -----
func.func @narrowScatter(%i: tensor<4xi64>, %x: tensor<4xf16>) {
  %0 = kernel.loops [reduce 4] (%i, %x : tensor<4xi64>, tensor<4xf16>) -> tensor<4xf16> {
    %1 = kernel.load %i[d0] : tensor<4xi64>
    %2 = kernel.load %x[d0] : tensor<4xf16>
    // expected-error @+1 {{[2] adds up 'f16', in which sums lose summands: convert the updates to 'f32'}}
    kernel.scatter_add %2 at %1 to [0] stride 1 limit 4 : i64, f16
  }
  return
}

// -----
func.func @narrowArithmetic(%x: tensor<4xbf16>) {
  // expected-error @+1 {{[5] computes with 'bf16' in arith.addf; convert to 'f32', and the result of the formula back}}
  %0 = kernel.loops [4] (%x : tensor<4xbf16>) -> tensor<4xbf16> {
    %1 = kernel.load %x[d0] : tensor<4xbf16>
    %2 = arith.addf %1, %1 : bf16
    kernel.store %2 to 0[d0] : bf16
  }
  return
}

// -----
func.func @narrowComparison(%x: tensor<4xf16>) {
  // expected-error @+1 {{[5] computes with 'f16' in arith.cmpf}}
  %0 = kernel.loops [4] (%x : tensor<4xf16>) -> tensor<4xi1> {
    %1 = kernel.load %x[d0] : tensor<4xf16>
    %2 = arith.cmpf olt, %1, %1 : f16
    kernel.store %2 to 0[d0] : i1
  }
  return
}
