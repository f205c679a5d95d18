// RUN: polyrank-opt %s -split-input-file --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --form-gemms --form-kernels --assign-buffers --check-buffers --check-ranks --evaluate=ranks | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --form-gemms --form-kernels --order-commands --start-collectives --assign-buffers --check-buffers --check-ranks --evaluate=arena | FileCheck %s
// RUN: polyrank-opt %s -split-input-file --form-gemms --form-kernels --order-commands --start-collectives --assign-buffers --evaluate=arena --seed=7 | FileCheck %s --check-prefix=SEVEN
// RUN: not polyrank-opt %s -split-input-file --evaluate=global 2>&1 | FileCheck %s --check-prefix=GLOBAL
// Two stages with one forward and one backward in turn, data parallel besides,
// give what one function gives. Arguments are drawn by their global numbers, so
// they are the same.

// CHECK: @step {{ranks|arena}}
// CHECK-NEXT: result0: [[W0:.*]]
// CHECK-NEXT: result1: [[W1:.*]]
// CHECK-NEXT: norm: [[NORM:.*]]
// CHECK-NEXT: @step_0, @step_1 {{ranks|arena}}
// CHECK-NEXT: result0: [[W0]]
// CHECK-NEXT: result1: [[W1]]
// CHECK-NEXT: norm: [[NORM]]

// SEVEN: @step arena
// SEVEN-NEXT: result0: [[W0:.*]]
// SEVEN-NEXT: result1: [[W1:.*]]
// SEVEN-NEXT: norm: [[NORM:.*]]
// SEVEN-NEXT: @step_0, @step_1 arena
// SEVEN-NEXT: result0: [[W0]]
// SEVEN-NEXT: result1: [[W1]]
// SEVEN-NEXT: norm: [[NORM]]

// GLOBAL: error: @step_0, @step_1 are what ranks run: evaluate them as ranks or by their arena

module attributes {graph.model = "m.onnx"} {
  graph.parameter @w0 : tensor<4xf32> at "m.onnx" offset 0 length 16 {trainable}
  graph.parameter @w1 : tensor<4xf32> at "m.onnx" offset 16 length 16 {trainable}
  func.func @step(%w0: tensor<4xf32> {graph.role = #graph.parameter<@w0>}, %w1: tensor<4xf32> {graph.role = #graph.parameter<@w1>},
                  %x: tensor<3x8xf32> {graph.role = #graph.input<"x">})
      -> (tensor<4xf32> {graph.role = #graph.next<0>}, tensor<4xf32> {graph.role = #graph.next<1>},
          tensor<f32> {graph.role = #graph.output<"norm">}) {
    %y = graph.reshape %x : (tensor<3x8xf32>) -> tensor<6x4xf32>
    %b0 = graph.broadcast %w0 {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
    %b1 = graph.broadcast %w1 {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
    %h = graph.mul %y, %b0 : tensor<6x4xf32>
    %o = graph.mul %h, %b1 : tensor<6x4xf32>
    %d1 = graph.mul %h, %o : tensor<6x4xf32>
    %dh = graph.mul %o, %b1 : tensor<6x4xf32>
    %d0 = graph.mul %dh, %y : tensor<6x4xf32>
    %g0 = graph.reduce sum %d0 over [0] : (tensor<6x4xf32>) -> tensor<4xf32>
    %g1 = graph.reduce sum %d1 over [0] : (tensor<6x4xf32>) -> tensor<4xf32>
    %q0 = graph.mul %g0, %g0 : tensor<4xf32>
    %q1 = graph.mul %g1, %g1 : tensor<4xf32>
    %s0 = graph.reduce sum %q0 over [0] : (tensor<4xf32>) -> tensor<f32>
    %s1 = graph.reduce sum %q1 over [0] : (tensor<4xf32>) -> tensor<f32>
    %norm = graph.add %s0, %s1 : tensor<f32>
    %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %u0 = graph.mul %g0, %b : tensor<4xf32>
    %u1 = graph.mul %g1, %b : tensor<4xf32>
    %n0 = graph.sub %w0, %u0 : tensor<4xf32>
    %n1 = graph.sub %w1, %u1 : tensor<4xf32>
    return %n0, %n1, %norm : tensor<4xf32>, tensor<4xf32>, tensor<f32>
  }
}

// -----
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
#s0 = #sharding.layout<#mesh, [], at {"pipe" = 0}>
#w0 = #sharding.layout<#mesh, [{}], at {"pipe" = 0}>
#w1 = #sharding.layout<#mesh, [{}], at {"pipe" = 1}>
#x = #sharding.layout<#mesh, [{}, {"data"}], at {"pipe" = 0}>
#n = #sharding.layout<#mesh, []>
module attributes {graph.model = "m.onnx"} {
  graph.parameter @w0 : tensor<4xf32> at "m.onnx" offset 0 length 16 {trainable}
  graph.parameter @w1 : tensor<4xf32> at "m.onnx" offset 16 length 16 {trainable}
  func.func @step_0(%w: tensor<4xf32> {rank.global = tensor<4xf32, #w0>, rank.number = 0 : i64, graph.role = #graph.parameter<@w0>},
                    %x: tensor<3x4xf32> {rank.global = tensor<3x8xf32, #x>, graph.role = #graph.input<"x">, rank.number = 2 : i64})
      -> (tensor<4xf32> {graph.role = #graph.next<0>, rank.global = tensor<4xf32, #w0>, rank.number = 0 : i64},
          tensor<f32> {graph.role = #graph.output<"norm">, rank.global = tensor<f32, #n>, rank.number = 2 : i64})
      attributes {rank.at = {pipe = 0 : i64}} {
    %g = rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1, 2:2] of(%x) carry() {
    rank.segment "forward" takes [] gives [] {
    ^bb0(%xi: tensor<4xf32>):
      %h = graph.mul %xi, %w : tensor<4xf32>
      rank.send %h over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
      rank.yield
    }
    rank.segment "backward first" takes [] gives [0] {
    ^bb0(%xi: tensor<4xf32>):
      %dh = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
      %dw = graph.mul %dh, %xi : tensor<4xf32>
      rank.yield %dw : tensor<4xf32>
    }
    rank.segment "backward" takes [0] gives [0] {
    ^bb0(%xi: tensor<4xf32>, %sum: tensor<4xf32>):
      %dh = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
      %dw = graph.mul %dh, %xi : tensor<4xf32>
      %next = graph.add %sum, %dw : tensor<4xf32>
      rank.yield %next : tensor<4xf32>
    }
    } : (tensor<3x4xf32>) -> tensor<4xf32>
    %r = rank.all_reduce sum %g over <#mesh, {"data"}> id 3 : (tensor<4xf32>) -> tensor<4xf32>
    %q = graph.mul %r, %r : tensor<4xf32>
    %s = graph.reduce sum %q over [0] : (tensor<4xf32>) -> tensor<f32>
    %norm = rank.all_reduce sum %s over <#mesh, {"pipe"}> id 4 : (tensor<f32>) -> tensor<f32>
    %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %u = graph.mul %r, %b : tensor<4xf32>
    %n = graph.sub %w, %u : tensor<4xf32>
    return %n, %norm : tensor<4xf32>, tensor<f32>
  }
  func.func @step_1(%w: tensor<4xf32> {rank.global = tensor<4xf32, #w1>, rank.number = 1 : i64, graph.role = #graph.parameter<@w1>})
      -> (tensor<4xf32> {graph.role = #graph.next<0>, rank.global = tensor<4xf32, #w1>, rank.number = 1 : i64},
          tensor<f32> {graph.role = #graph.output<"norm">, rank.global = tensor<f32, #n>, rank.number = 2 : i64})
      attributes {rank.at = {pipe = 1 : i64}} {
    %g = rank.microbatches [0:0, 1:1, 1:2] of() carry() {
    rank.segment "first" takes [] gives [0] {
      %h = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
      %o = graph.mul %h, %w : tensor<4xf32>
      %dw = graph.mul %h, %o : tensor<4xf32>
      %dh = graph.mul %o, %w : tensor<4xf32>
      rank.send %dh over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
      rank.yield %dw : tensor<4xf32>
    }
    rank.segment "rest" takes [0] gives [0] {
    ^bb0(%sum: tensor<4xf32>):
      %h = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
      %o = graph.mul %h, %w : tensor<4xf32>
      %dw = graph.mul %h, %o : tensor<4xf32>
      %dh = graph.mul %o, %w : tensor<4xf32>
      rank.send %dh over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
      %next = graph.add %sum, %dw : tensor<4xf32>
      rank.yield %next : tensor<4xf32>
    }
    } : () -> tensor<4xf32>
    %r = rank.all_reduce sum %g over <#mesh, {"data"}> id 5 : (tensor<4xf32>) -> tensor<4xf32>
    %q = graph.mul %r, %r : tensor<4xf32>
    %s = graph.reduce sum %q over [0] : (tensor<4xf32>) -> tensor<f32>
    %norm = rank.all_reduce sum %s over <#mesh, {"pipe"}> id 4 : (tensor<f32>) -> tensor<f32>
    %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %u = graph.mul %r, %b : tensor<4xf32>
    %n = graph.sub %w, %u : tensor<4xf32>
    return %n, %norm : tensor<4xf32>, tensor<f32>
  }
}
