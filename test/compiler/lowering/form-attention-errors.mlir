// RUN: polyrank-opt %s --form-attention=attention=fused --split-input-file --verify-diagnostics
// RUN: polyrank-opt %s --form-attention=attention=auto --split-input-file -o - | FileCheck %s

// If the target chooses, what it has no call for stays, and is decomposed.
// CHECK: graph.attention
func.func @attention(%q: tensor<1x1x200x4xf64>) -> tensor<1x1x200x4xf64> {
  // expected-error @+1 {{is of 'f64', for which this device has no library call; convert the operands to f32}}
  %y, %lse = graph.attention %q, %q, %q {scale = 1.0 : f64, causal = false} : (tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>) -> (tensor<1x1x200x4xf64>, tensor<1x1x200xf64>)
  return %y : tensor<1x1x200x4xf64>
}

// -----

// CHECK: graph.attention_grad
func.func @gradient(%q: tensor<1x1x200x4xf64>, %lse: tensor<1x1x200xf64>) -> tensor<1x1x200x4xf64> {
  // expected-error @+1 {{is of 'f64', for which this device has no library call; convert the operands to f32}}
  %dq, %dk, %dv = graph.attention_grad %q, %q, %q, %q, %q, %lse {scale = 1.0 : f64, causal = false}
    : (tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200xf64>) -> (tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>, tensor<1x1x200x4xf64>)
  return %dq : tensor<1x1x200x4xf64>
}
