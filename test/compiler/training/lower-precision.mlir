// Products of a step compute in bf16; what needs digits computes in f32.

// RUN: polyrank-opt %s --split-input-file --lower-precision="precision=bf16" | FileCheck %s
// RUN: polyrank-opt %s --split-input-file --lower-precision="precision=fp16" | FileCheck %s --check-prefix=HALF
// RUN: polyrank-opt %s --split-input-file --lower-precision | FileCheck %s --check-prefix=SAME
// RUN: polyrank-opt %s --split-input-file --lower-precision="precision=bf16 fp32=head" 2>/dev/null | FileCheck %s --check-prefix=HEAD
// SAME-NOT: bf16
// HALF-NOT: bf16
// HALF: f16

// A linear layer, its activation and its gradients, with two microbatches. The
// weight is converted once, before the microbatches; the bias is added, in f32,
// before the sum is rounded; the gradient of the weight is rounded nowhere.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<3x5xf32>
// CHECK: %[[W16:.+]] = graph.convert %[[W]] : (tensor<3x5xf32>) -> tensor<3x5xbf16>
// CHECK: %[[T16:.+]] = graph.transpose %[[W16]]
// CHECK: graph.microbatches
// CHECK: ^bb0(%{{.+}}: tensor<i64>, %[[X:.+]]: tensor<4x5xf32>):
// CHECK: %[[X16:.+]] = graph.convert %[[X]] : (tensor<4x5xf32>) -> tensor<4x5xbf16>
// CHECK: %[[Y:.+]] = graph.matmul %[[X16]], %[[T16]] {{.*}} -> tensor<4x3xbf16>
// CHECK: %[[Y32:.+]] = graph.convert %[[Y]]
// CHECK: %[[SUM:.+]] = graph.add %[[Y32]], %{{.+}} : tensor<4x3xf32>
// CHECK: %[[Z:.+]] = graph.convert %[[SUM]] {{.*}}: (tensor<4x3xf32>) -> tensor<4x3xbf16>
// CHECK: %[[A:.+]] = graph.gelu erf %[[Z]] {{.*}}: tensor<4x3xbf16>
// CHECK: %[[A32:.+]] = graph.convert %[[A]] {{.*}}: (tensor<4x3xbf16>) -> tensor<4x3xf32>
// CHECK: graph.reduce sum %[[A32]]
// CHECK: %[[DZ:.+]] = graph.gelu_grad erf %{{.+}} : tensor<4x3xf32>
// CHECK: %[[DZ16:.+]] = graph.convert %[[DZ]] {{.*}}: (tensor<4x3xf32>) -> tensor<4x3xbf16>
// CHECK: %[[DW:.+]] = graph.matmul %[[X16]], %[[DZ16]] {{.*}} -> tensor<5x3xf32>
// CHECK: graph.transpose %[[DW]] {{.*}} -> tensor<3x5xf32>
// CHECK: graph.reduce sum %[[DZ]] over [0] : (tensor<4x3xf32>) -> tensor<3xf32>
// CHECK: graph.gradient %{{.+}} : tensor<3x5xf32>

// HEAD-NOT: bf16
func.func @step(%w: tensor<3x5xf32> {graph.role = #graph.parameter<@w>}, %b: tensor<3xf32> {graph.role = #graph.parameter<@b>},
                %x: tensor<2x4x5xf32> {graph.role = #graph.input<"x">})
    -> (tensor<3x5xf32> {graph.role = #graph.next<0>}, tensor<3xf32> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %bias = graph.broadcast %b {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<4x3xf32>
  %dws, %dbs, %losses = graph.microbatches count = 2 of(%x) carry() {
  ^bb0(%index: tensor<i64>, %xi: tensor<4x5xf32>):
    %y = graph.matmul %xi, %t batch [] x [] contract [1] x [0] {graph.scope = "head.fc"} : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %z = graph.add %y, %bias {graph.scope = "head.fc"} : tensor<4x3xf32>
    %a = graph.gelu erf %z {graph.scope = "head"} : tensor<4x3xf32>
    %loss = graph.reduce sum %a over [0, 1] : (tensor<4x3xf32>) -> tensor<f32>
    %seed = graph.seed 1.0 : tensor<f32>
    %da = graph.broadcast %seed {dims = array<i64>} : (tensor<f32>) -> tensor<4x3xf32>
    %dz = graph.gelu_grad erf %da, %z {graph.scope = "head"} : tensor<4x3xf32>
    %dw = graph.matmul %xi, %dz batch [] x [] contract [0] x [0] {graph.scope = "head.fc"} : (tensor<4x5xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %dwt = graph.transpose %dw {permutation = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
    %db = graph.reduce sum %dz over [0] : (tensor<4x3xf32>) -> tensor<3xf32>
    graph.yield sum(%dwt, %db, %loss) carry() : tensor<3x5xf32>, tensor<3xf32>, tensor<f32>
  } : (tensor<2x4x5xf32>) -> (tensor<3x5xf32>, tensor<3xf32>, tensor<f32>)
  %gw = graph.gradient %dws of @w : tensor<3x5xf32>
  %gb = graph.gradient %dbs of @b : tensor<3xf32>
  %nw = graph.sub %w, %gw : tensor<3x5xf32>
  %nb = graph.sub %b, %gb : tensor<3xf32>
  return %nw, %nb, %losses : tensor<3x5xf32>, tensor<3xf32>, tensor<f32>
}
