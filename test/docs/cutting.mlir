// RUN: polyrank-opt %s --assign-stages=ranks=2 2>%t.said | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t.said
// RUN: not polyrank-opt %s --assign-stages='ranks=2 patterns=up=1,down=0' 2>&1 | FileCheck %s --check-prefix=ORDER
// The example of docs/cutting.md.

!x = tensor<4x16xf32>
!h = tensor<4x32xf32>
!wide = tensor<16x32xf32>
!back = tensor<32x16xf32>
!square = tensor<16x16xf32>
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 0.001>], bandwidth = 1000.0>} {
graph.parameter @up : !wide at "m.onnx" offset 0 length 2048 {trainable}
graph.parameter @down : !back at "m.onnx" offset 2048 length 2048 {trainable}
graph.parameter @head : !square at "m.onnx" offset 4096 length 1024 {trainable}

func.func @forward(%up: !wide {graph.role = #graph.parameter<@up>}, %down: !back {graph.role = #graph.parameter<@down>}, %head: !square {graph.role = #graph.parameter<@head>}, %x: !x {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"y">}) {
  %zero = graph.constant dense<0.0> : !x
  %mask = graph.compare gt %x, %zero : (!x, !x) -> tensor<4x16xi1>
  %h = graph.matmul %x, %up batch [] x [] contract [1] x [0] : (!x, !wide) -> !h loc("up")
  %a = graph.relu %h : !h loc("relu")
  %d = graph.matmul %a, %down batch [] x [] contract [1] x [0] : (!h, !back) -> !x loc("down")
  %r = graph.add %d, %x : !x loc("residual")
  %y = graph.matmul %r, %head batch [] x [] contract [1] x [0] : (!x, !square) -> !x loc("head")
  %z = graph.select %mask, %y, %zero : (tensor<4x16xi1>, !x, !x) -> !x loc("masked")
  return %z : !x
}
}

// CHECK-NOT: graph.compare {{.*}}graph.stage
// CHECK: graph.matmul {{.*}}graph.stage = 0
// CHECK: graph.relu {{.*}}graph.stage = 0
// CHECK: graph.matmul {{.*}}graph.stage = 1
// CHECK: graph.add {{.*}}graph.stage = 1
// CHECK: graph.matmul {{.*}}graph.stage = 1
// CHECK: graph.select {{.*}}graph.stage = 1

// SAID: stages: the slowest of 2 on pipe (1f1b) takes 18.708 ms a microbatch, its transfers included; at least 13.568 ms are needed without any (gap 27.48%)
// SAID: stage 0 at pipe=0: 'up' to 'relu', 40.2% of the FLOPs, 2048 bytes of parameters, sends 512 bytes a microbatch
// SAID: stage 1 at pipe=1: 'down' to 'masked', 59.8% of the FLOPs, 3072 bytes of parameters

// ORDER: --stage 'down=0' puts matmul 'down' on stage 0, but it depends on matmul 'up', which --stage 'up=1' puts on stage 1; values go to later stages only
