// RUN: polyrank-opt %s --form-gemms -split-input-file -verify-diagnostics

func.func @double(%a: tensor<4x8xf64>, %b: tensor<8x6xf64>) -> tensor<4x6xf64> {
  // expected-error @+1 {{multiplies 'f64', for which this device has no library call; convert the operands to f32}}
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf64>, tensor<8x6xf64>) -> tensor<4x6xf64>
  return %x : tensor<4x6xf64>
}
