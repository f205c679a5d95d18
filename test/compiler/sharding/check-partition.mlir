// RUN: polyrank-opt %s -split-input-file -verify-diagnostics --check-partition
// What holds of a whole partitioned program, by its number in Passes.td.

// P1: a value without a layout.
#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{input `x` of type 'tensor<4xf32>' has no layout; after partitioning every tensor needs one (propagate-layouts writes them)}}
func.func @step(%x: tensor<4xf32> {graph.role = #graph.input<"x">}) {
  return
}

// -----

// P1: none anywhere.
func.func @step() {
  // expected-error @+1 {{result 0 of graph.constant of type 'tensor<f32>' has no layout}}
  %x = graph.constant dense<1.0> : tensor<f32>
  return
}

// -----

// P1: two meshes.
#mesh = #sharding.mesh<["data"=2]>
#other = #sharding.mesh<["tensor"=2]>
// expected-error @+1 {{argument 1 is laid out over #sharding.mesh<["tensor"=2]>, other values over #sharding.mesh<["data"=2]>}}
func.func @step(%x: tensor<4xf32, #sharding.layout<#mesh, [{}]>>, %y: tensor<4xf32, #sharding.layout<#other, [{}]>>) {
  return
}

// -----

// P2: a reshard that nobody planned.
#mesh = #sharding.mesh<["data"=2]>
func.func @step(%x: tensor<4xf32, #sharding.layout<#mesh, [{"data"}]>>) {
  // expected-error @+1 {{'sharding.reshard' op is left, but the program is partitioned; plan-reshards lowers it to collectives}}
  %y = sharding.reshard %x : (tensor<4xf32, #sharding.layout<#mesh, [{"data"}]>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----

// P2: a composite still split.
#mesh = #sharding.mesh<["data"=2]>
func.func @step(%x: tensor<4xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{'graph.softmax' op is a composite that is still split; decompose-composites decomposes it}}
  %y = graph.softmax %x {dim = 0 : i64, sharding.composite} : (tensor<4xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<4xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----

// P3: a parameter that is partial at the boundary of the step.
#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{parameter `h.0.w` is a partial sum over {"data"} at the boundary of @step, where values are whole or split; reduce it (sharding.all_reduce or sharding.reduce_scatter)}}
func.func @step(%w: tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"data"}>> {graph.role = #graph.parameter<@h.0.w>}) {
  return
}

// -----

// P3: a parameter's new value, from a gradient that nobody reduced.
#mesh = #sharding.mesh<["data"=2]>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
!part = tensor<4xf32, #sharding.layout<#mesh, [{}], partial = sum {"data"}>>
func.func @step(%w: !whole {graph.role = #graph.parameter<@w>}, %x: tensor<2x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>> {graph.role = #graph.input<"x">}) -> (!part {graph.role = #graph.next<0>}) {
  // expected-error @+1 {{the new value of parameter `w` is a partial sum over {"data"} at the boundary of @step}}
  %g = graph.reduce sum %x over [0] : (tensor<2x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>) -> !part
  return %g : !part
}

// -----

// P3: a loss of one device.
#mesh = #sharding.mesh<["data"=2]>
!loss = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
func.func @step(%x: tensor<2xf32, #sharding.layout<#mesh, [{"data"}]>>) -> (!loss {graph.role = #graph.output<"loss">}) {
  // expected-error @+1 {{output `loss` is a partial sum over {"data"} at the boundary of @step}}
  %l = graph.reduce sum %x over [0] : (tensor<2xf32, #sharding.layout<#mesh, [{"data"}]>>) -> !loss
  return %l : !loss
}

// -----

// P4: state whose padding may hold anything.
#mesh = #sharding.mesh<["tensor"=4]>
// expected-error @+1 {{state `w.exp_avg` dim 0 is padded to 8 without 'fill zero' at the boundary of @step, where the padding of parameters and state holds zeros (sharding.fill)}}
func.func @step(%m: tensor<6xf32, #sharding.layout<#mesh, [{"tensor"} pad 8]>> {graph.role = #graph.state<"exp_avg" of @w>}) {
  return
}

// -----

// P5: an update that gathers.
#mesh = #sharding.mesh<["tensor"=2]>
!split = tensor<4xf32, #sharding.layout<#mesh, [{"tensor"}]>>
!whole = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
func.func @step(%w: !split {graph.role = #graph.parameter<@w>}) -> (!whole {graph.role = #graph.next<0>}) {
  // expected-error @+1 {{the new value of parameter `w` is 'tensor<4xf32, #sharding.layout<#sharding.mesh<["tensor"=2]>, [{}]>>', but takes the place of 'tensor<4xf32, #sharding.layout<#sharding.mesh<["tensor"=2]>, [{"tensor"}]>>': the layouts at both ends of the step are the same}}
  %n = sharding.all_gather %w : (!split) -> !whole
  return %n : !whole
}

// -----

// The padding of an input may hold anything.
#mesh = #sharding.mesh<["data"=2]>
!x = tensor<7xf32, #sharding.layout<#mesh, [{"data"} pad 8]>>
func.func @padded_input(%x: !x {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"y">}) {
  return %x : !x
}

// -----

// Values of one microbatch need a layout, too: the index.
#mesh = #sharding.mesh<["data"=2]>
!x = tensor<2x8xf32, #sharding.layout<#mesh, [{}, {"data"}]>>
!xi = tensor<8xf32, #sharding.layout<#mesh, [{"data"}]>>
func.func @index(%x: !x {graph.role = #graph.input<"x">}) -> (!xi {graph.role = #graph.output<"y">}) {
  %0 = graph.microbatches count = 2 of(%x) carry() {
  // expected-error @+1 {{block argument 0 of graph.microbatches of type 'tensor<i64>' has no layout}}
  ^bb0(%i: tensor<i64>, %xi: !xi):
    graph.yield sum(%xi) carry() : !xi
  } : (!x) -> !xi
  return %0 : !xi
}
