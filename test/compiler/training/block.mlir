// A transformer block as torch's exporter writes it: rows merged around
// matmuls, keys transposed through merged heads, attention and gelu in parts.
// After the passes no merged dim is left, and the fused projection is a weight
// with heads as dims.

// RUN: polyrank-opt %s --unflatten | FileCheck %s --check-prefix=UNFLATTEN
// RUN: polyrank-opt %s --unflatten --raise-composites --find-logical-parameters | FileCheck %s

graph.parameter @c_attn.weight : tensor<8x24xf32> at "m.onnx" offset 0 length 768 {trainable}
graph.parameter @c_attn.bias : tensor<24xf32> at "m.onnx" offset 768 length 96 {trainable}
graph.parameter @c_proj.weight : tensor<8x8xf32> at "m.onnx" offset 864 length 256 {trainable}
graph.parameter @c_proj.bias : tensor<8xf32> at "m.onnx" offset 1120 length 32 {trainable}
graph.parameter @ln.weight : tensor<8xf32> at "m.onnx" offset 1152 length 32 {trainable}
graph.parameter @ln.bias : tensor<8xf32> at "m.onnx" offset 1184 length 32 {trainable}

// UNFLATTEN-LABEL: func.func @forward
// UNFLATTEN-NOT: tensor<12x8xf32>
// UNFLATTEN-NOT: tensor<6x4x4xf32>

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<3x4x8xf32> {graph.role = #graph.input<"x">}
// CHECK-SAME: %[[WA:[a-z0-9]+]]: tensor<8x3x2x4xf32> {graph.role = #graph.parameter<@c_attn.weight view [0, 24, 8, 4, 1]>}
// CHECK-SAME: %[[BA:[a-z0-9]+]]: tensor<3x2x4xf32> {graph.role = #graph.parameter<@c_attn.bias view [0, 8, 4, 1]>}
// CHECK-SAME: %[[WP:[a-z0-9]+]]: tensor<2x4x8xf32> {graph.role = #graph.parameter<@c_proj.weight view [0, 32, 8, 1]>}
// CHECK-SAME: %[[BP:[a-z0-9]+]]: tensor<8xf32> {graph.role = #graph.parameter<@c_proj.bias>}
// CHECK: %[[N:.+]], %{{.+}}, %{{.+}} = graph.layer_norm %[[X]]
// CHECK: %[[QKV:.+]] = graph.matmul %[[N]], %[[WA]] batch [] x [] contract [2] x [0]
// CHECK-SAME: -> tensor<3x4x3x2x4xf32>
// CHECK: %[[Z:.+]] = graph.add %[[QKV]]
// CHECK-COUNT-3: graph.slice {{.*}} -> tensor<3x4x1x2x4xf32>
// CHECK: %[[O:.+]], %{{.+}} = graph.attention
// CHECK-SAME: causal = true, scale = 0.4999999
// CHECK: %[[T:.+]] = graph.transpose %[[O]]
// CHECK: graph.matmul %[[T]], %[[WP]] batch [] x [] contract [2, 3] x [0, 1]
// CHECK-NOT: graph.reshape
// CHECK: graph.gelu tanh
// CHECK: return
func.func @forward(%x: tensor<3x4x8xf32> {graph.role = #graph.input<"x">},
    %wa: tensor<8x24xf32> {graph.role = #graph.parameter<@c_attn.weight>}, %ba: tensor<24xf32> {graph.role = #graph.parameter<@c_attn.bias>},
    %wp: tensor<8x8xf32> {graph.role = #graph.parameter<@c_proj.weight>}, %bp: tensor<8xf32> {graph.role = #graph.parameter<@c_proj.bias>},
    %g: tensor<8xf32> {graph.role = #graph.parameter<@ln.weight>}, %b: tensor<8xf32> {graph.role = #graph.parameter<@ln.bias>})
    -> (tensor<3x4x8xf32> {graph.role = #graph.output<"y">}) {
  %n, %mean, %rstd = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<3x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<3x4x8xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
  %v1 = graph.reshape %n : (tensor<3x4x8xf32>) -> tensor<12x8xf32>
  %m1 = graph.matmul %v1, %wa batch [] x [] contract [1] x [0] : (tensor<12x8xf32>, tensor<8x24xf32>) -> tensor<12x24xf32>
  %c1 = graph.broadcast %ba {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<12x24xf32>
  %a1 = graph.add %m1, %c1 : tensor<12x24xf32>
  %v2 = graph.reshape %a1 : (tensor<12x24xf32>) -> tensor<3x4x24xf32>
  %s0 = graph.slice %v2 {starts = array<i64: 0, 0, 0>, limits = array<i64: 3, 4, 8>, strides = array<i64: 1, 1, 1>} : (tensor<3x4x24xf32>) -> tensor<3x4x8xf32>
  %s1 = graph.slice %v2 {starts = array<i64: 0, 0, 8>, limits = array<i64: 3, 4, 16>, strides = array<i64: 1, 1, 1>} : (tensor<3x4x24xf32>) -> tensor<3x4x8xf32>
  %s2 = graph.slice %v2 {starts = array<i64: 0, 0, 16>, limits = array<i64: 3, 4, 24>, strides = array<i64: 1, 1, 1>} : (tensor<3x4x24xf32>) -> tensor<3x4x8xf32>
  %k0 = graph.reshape %s1 : (tensor<3x4x8xf32>) -> tensor<3x4x2x4xf32>
  %k1 = graph.transpose %k0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
  %w0 = graph.reshape %s2 : (tensor<3x4x8xf32>) -> tensor<3x4x2x4xf32>
  %w1 = graph.transpose %w0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
  %q0 = graph.reshape %s0 : (tensor<3x4x8xf32>) -> tensor<3x4x2x4xf32>
  %q1 = graph.transpose %q0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
  %k2 = graph.reshape %k1 : (tensor<3x2x4x4xf32>) -> tensor<6x4x4xf32>
  %k3 = graph.transpose %k2 {permutation = array<i64: 0, 2, 1>} : (tensor<6x4x4xf32>) -> tensor<6x4x4xf32>
  %k4 = graph.reshape %k3 : (tensor<6x4x4xf32>) -> tensor<3x2x4x4xf32>
  %root = graph.constant dense<0.70710678> : tensor<3x2x4x4xf32>
  %q2 = graph.mul %q1, %root : tensor<3x2x4x4xf32>
  %k5 = graph.mul %k4, %root : tensor<3x2x4x4xf32>
  %p0 = graph.matmul %q2, %k5 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %mask = graph.constant dense<[[0.0, -3.4028234663852886e+38, -3.4028234663852886e+38, -3.4028234663852886e+38],
                                [0.0, 0.0, -3.4028234663852886e+38, -3.4028234663852886e+38],
                                [0.0, 0.0, 0.0, -3.4028234663852886e+38], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %masks = graph.broadcast %mask {dims = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<3x2x4x4xf32>
  %p1 = graph.add %p0, %masks : tensor<3x2x4x4xf32>
  %p2 = graph.softmax %p1 {dim = 3 : i64} : (tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %nan = graph.compare ne %p2, %p2 : (tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xi1>
  %zero = graph.constant dense<0.0> : tensor<3x2x4x4xf32>
  %p3 = graph.select %nan, %zero, %p2 : (tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %o0 = graph.matmul %p3, %w1 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %o1 = graph.transpose %o0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x2x4x4xf32>) -> tensor<3x4x2x4xf32>
  %o2 = graph.reshape %o1 : (tensor<3x4x2x4xf32>) -> tensor<3x4x8xf32>
  %o3 = graph.reshape %o2 : (tensor<3x4x8xf32>) -> tensor<12x8xf32>
  %o4 = graph.matmul %o3, %wp batch [] x [] contract [1] x [0] : (tensor<12x8xf32>, tensor<8x8xf32>) -> tensor<12x8xf32>
  %c2 = graph.broadcast %bp {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<12x8xf32>
  %o5 = graph.add %o4, %c2 : tensor<12x8xf32>
  %o6 = graph.reshape %o5 : (tensor<12x8xf32>) -> tensor<3x4x8xf32>
  %o7 = graph.add %o6, %x : tensor<3x4x8xf32>
  %half = graph.constant dense<0.5> : tensor<3x4x8xf32>
  %h0 = graph.mul %o7, %half : tensor<3x4x8xf32>
  %three = graph.constant dense<3.0> : tensor<3x4x8xf32>
  %h1 = graph.pow %o7, %three : tensor<3x4x8xf32>
  %cubic = graph.constant dense<0.044715> : tensor<3x4x8xf32>
  %h2 = graph.mul %h1, %cubic : tensor<3x4x8xf32>
  %h3 = graph.add %o7, %h2 : tensor<3x4x8xf32>
  %slope = graph.constant dense<0.7978845834732056> : tensor<3x4x8xf32>
  %h4 = graph.mul %h3, %slope : tensor<3x4x8xf32>
  %h5 = graph.tanh %h4 : tensor<3x4x8xf32>
  %one = graph.constant dense<1.0> : tensor<3x4x8xf32>
  %h6 = graph.add %h5, %one : tensor<3x4x8xf32>
  %y = graph.mul %h0, %h6 : tensor<3x4x8xf32>
  return %y : tensor<3x4x8xf32>
}
