// RUN: polyrank-opt %s --evaluate=global | FileCheck %s
// RUN: polyrank-opt %s --localize --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize --form-segments --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize --form-segments --form-gemms --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize --form-segments --form-gemms --form-kernels --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s --localize --form-segments --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks | FileCheck %s
// Each step of the lowering keeps the meaning: two ranks train what one global
// program trains. A perceptron with data=2, its layouts written by hand.

// CHECK: @step
// CHECK: result0: tensor<16x32xf32> sum 10.6653, norm 11.5086
// CHECK: result1: tensor<32x4xf32> sum 7.30868, norm 5.24697
// CHECK: loss: tensor<f32> [854.333]

#mesh = #sharding.mesh<["data"=2]>
#rep0 = #sharding.layout<#mesh, []>
#rep1 = #sharding.layout<#mesh, [{}]>
#rep = #sharding.layout<#mesh, [{}, {}]>
#b2 = #sharding.layout<#mesh, [{"data"}, {}]>
#b3 = #sharding.layout<#mesh, [{}, {"data"}, {}]>
#p = #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>
#p1 = #sharding.layout<#mesh, [{}], partial = sum {"data"}>
#p0 = #sharding.layout<#mesh, [], partial = sum {"data"}>
module attributes {graph.model = "mlp.onnx"} {
  graph.parameter @w1 : tensor<16x32xf32> at "mlp.onnx" offset 0 length 2048 {trainable}
  graph.parameter @w2 : tensor<32x4xf32> at "mlp.onnx" offset 2048 length 512 {trainable}
  func.func @step(%w1: tensor<16x32xf32, #rep> {graph.role = #graph.parameter<@w1>}, %w2: tensor<32x4xf32, #rep> {graph.role = #graph.parameter<@w2>},
                  %x: tensor<4x8x16xf32, #b3> {graph.role = #graph.input<"x">}, %y: tensor<4x8x4xf32, #b3> {graph.role = #graph.input<"y" labels>})
      -> (tensor<16x32xf32, #rep> {graph.role = #graph.next<0>}, tensor<32x4xf32, #rep> {graph.role = #graph.next<1>}, tensor<f32, #rep0> {graph.role = #graph.output<"loss">}) {
    %g1, %g2, %l = graph.microbatches count = 4 of(%x, %y) carry() {
    ^bb0(%i: tensor<i64, #rep0>, %xi: tensor<8x16xf32, #b2>, %yi: tensor<8x4xf32, #b2>):
      %h = graph.matmul %xi, %w1 batch [] x [] contract [1] x [0] : (tensor<8x16xf32, #b2>, tensor<16x32xf32, #rep>) -> tensor<8x32xf32, #b2>
      %a = graph.relu %h : tensor<8x32xf32, #b2>
      %o = graph.matmul %a, %w2 batch [] x [] contract [1] x [0] : (tensor<8x32xf32, #b2>, tensor<32x4xf32, #rep>) -> tensor<8x4xf32, #b2>
      %d = graph.sub %o, %yi : tensor<8x4xf32, #b2>
      %sq = graph.mul %d, %d : tensor<8x4xf32, #b2>
      %loss = graph.reduce sum %sq over [0, 1] : (tensor<8x4xf32, #b2>) -> tensor<f32, #p0>
      %two = graph.constant dense<2.0> : tensor<8x4xf32, #b2>
      %do = graph.mul %d, %two : tensor<8x4xf32, #b2>
      %dw2 = graph.matmul %a, %do batch [] x [] contract [0] x [0] : (tensor<8x32xf32, #b2>, tensor<8x4xf32, #b2>) -> tensor<32x4xf32, #p>
      %da = graph.matmul %do, %w2 batch [] x [] contract [1] x [1] : (tensor<8x4xf32, #b2>, tensor<32x4xf32, #rep>) -> tensor<8x32xf32, #b2>
      %zero = graph.constant dense<0.0> : tensor<8x32xf32, #b2>
      %mask = graph.compare gt %h, %zero : (tensor<8x32xf32, #b2>, tensor<8x32xf32, #b2>) -> tensor<8x32xi1, #b2>
      %dh = graph.select %mask, %da, %zero : (tensor<8x32xi1, #b2>, tensor<8x32xf32, #b2>, tensor<8x32xf32, #b2>) -> tensor<8x32xf32, #b2>
      %dw1 = graph.matmul %xi, %dh batch [] x [] contract [0] x [0] : (tensor<8x16xf32, #b2>, tensor<8x32xf32, #b2>) -> tensor<16x32xf32, #p>
      graph.yield sum(%dw1, %dw2, %loss) carry() : tensor<16x32xf32, #p>, tensor<32x4xf32, #p>, tensor<f32, #p0>
    } : (tensor<4x8x16xf32, #b3>, tensor<4x8x4xf32, #b3>) -> (tensor<16x32xf32, #p>, tensor<32x4xf32, #p>, tensor<f32, #p0>)
    %r1, %r2 = sharding.all_reduce %g1, %g2 {why = #sharding.reason<user = "sgd", constraint = "replicated parameters">} : (tensor<16x32xf32, #p>, tensor<32x4xf32, #p>) -> (tensor<16x32xf32, #rep>, tensor<32x4xf32, #rep>)
    %lr = sharding.all_reduce %l : (tensor<f32, #p0>) -> tensor<f32, #rep0>
    %s1 = graph.constant dense<0.001> : tensor<16x32xf32, #rep>
    %s2 = graph.constant dense<0.001> : tensor<32x4xf32, #rep>
    %u1 = graph.mul %r1, %s1 : tensor<16x32xf32, #rep>
    %u2 = graph.mul %r2, %s2 : tensor<32x4xf32, #rep>
    %n1 = graph.sub %w1, %u1 : tensor<16x32xf32, #rep>
    %n2 = graph.sub %w2, %u2 : tensor<32x4xf32, #rep>
    return %n1, %n2, %lr : tensor<16x32xf32, #rep>, tensor<32x4xf32, #rep>, tensor<f32, #rep0>
  }
}
