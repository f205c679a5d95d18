// RUN: polyrank-opt %s --form-gemms -split-input-file -verify-diagnostics

func.func @double(%a: tensor<4x8xf64>, %b: tensor<8x6xf64>) -> tensor<4x6xf64> {
  // expected-error @+1 {{multiplies 'f64', for which this device has no library call; convert the operands to f32}}
  %x = graph.matmul %a, %b batch [] x [] contract [1] x [0] : (tensor<4x8xf64>, tensor<8x6xf64>) -> tensor<4x6xf64>
  return %x : tensor<4x6xf64>
}

// -----
func.func @grouped(%x: tensor<4x3xf64>, %w: tensor<2x3x5xf64>, %g: tensor<4xi64>, %ids: tensor<2xi64>) -> tensor<4x5xf64> {
  // expected-error @+1 {{multiplies 'f64', for which this device has no library call}}
  %y = graph.grouped_matmul %x, %w, %g, %ids : (tensor<4x3xf64>, tensor<2x3x5xf64>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x5xf64>
  return %y : tensor<4x5xf64>
}
