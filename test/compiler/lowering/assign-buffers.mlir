// RUN: polyrank-opt %s --assign-buffers --check-buffers -split-input-file | FileCheck %s

rank.kernel @update(%w: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0, 1>]} {
  %0 = graph.sub %w, %g : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
rank.kernel @gradient(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<16xf32>
}

// The new parameter is written where the old one was; the input stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %{{.*}}: tensor<16xf32> {graph.role = #graph.parameter<@w>, rank.buffer = #rank.buffer<private, 0, 64>}
// CHECK-SAME: %{{.*}}: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 64, 64>}
// CHECK-SAME: rank.arena = #rank.arena<shared = 0, private = 192, lower_bound = 192>
// CHECK: rank.launch @gradient({{.*}}) {buffers = [#rank.buffer<private, 128, 64>]}
// CHECK-NEXT: rank.launch @update({{.*}}) {buffers = [#rank.buffer<private, 0, 64>]}
// CHECK-NEXT: return
func.func @step(%w: tensor<16xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.next<0>}) {
  %g = rank.launch @gradient(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %n = rank.launch @update(%w, %g) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// The old parameter is read after the update: the new one is copied at the end.
// CHECK-LABEL: func.func @late_read
// CHECK: %[[N:.*]] = rank.launch @update
// CHECK-SAME: #rank.buffer<private, [[ELSEWHERE:[1-9][0-9]*]], 64>
// CHECK: rank.launch @gradient
// CHECK: rank.copy %[[N]] {buffers = [#rank.buffer<private, 0, 64>]}
func.func @late_read(%w: tensor<16xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %n = rank.launch @update(%w, %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %y = rank.launch @gradient(%w) : (tensor<16xf32>) -> tensor<16xf32>
  return %n, %y : tensor<16xf32>, tensor<16xf32>
}

// Two parameters change places.
// CHECK-LABEL: func.func @swap
// CHECK-COUNT-4: rank.copy
func.func @swap(%a: tensor<16xf32> {graph.role = #graph.parameter<@a>}, %b: tensor<16xf32> {graph.role = #graph.parameter<@b>}) -> (tensor<16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.next<1>}) {
  return %b, %a : tensor<16xf32>, tensor<16xf32>
}

// The old parameter is an output: it is copied before the new one replaces it.
// CHECK-LABEL: func.func @old_and_new
// CHECK: rank.copy
// CHECK: return
func.func @old_and_new(%a: tensor<16xf32> {graph.role = #graph.parameter<@a>}, %x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.output<"old">}) {
  %n = rank.launch @update(%a, %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %n, %a : tensor<16xf32>, tensor<16xf32>
}

// A frozen parameter needs nothing.
// CHECK-LABEL: func.func @frozen
// CHECK-NOT: rank.copy
// CHECK: return
func.func @frozen(%a: tensor<16xf32> {graph.role = #graph.parameter<@a>}) -> (tensor<16xf32> {graph.role = #graph.next<0>}) {
  return %a : tensor<16xf32>
}

// One value for two parameters is written twice.
// CHECK-LABEL: func.func @twice
// CHECK: rank.launch @gradient({{.*}}) {buffers = [#rank.buffer<private, 0, 64>]}
// CHECK-NEXT: rank.copy {{.*}} {buffers = [#rank.buffer<private, 64, 64>]}
func.func @twice(%a: tensor<16xf32> {graph.role = #graph.parameter<@a>}, %b: tensor<16xf32> {graph.role = #graph.parameter<@b>}, %x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.next<1>}) {
  %g = rank.launch @gradient(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %g, %g : tensor<16xf32>, tensor<16xf32>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
rank.kernel @add(%w: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.add %w, %g : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
rank.kernel @move(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<16xf32>
}

// Microbatches read their slice of the input; the sum has one buffer, in which
// the reduction works; it is shared, and all else private. What is computed
// before the region and needed in each microbatch keeps its place throughout.
// CHECK-LABEL: func.func @microbatches
// CHECK-SAME: graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, [[X:[0-9]+]], 256>
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<private, [[BEFORE:[0-9]+]], 64>]}
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[TEMPORARY:[0-9]+]], 64>]}
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<shared, [[SUM:[0-9]+]], 64>]}
// CHECK: rank.segment "rest"
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[TEMPORARY]], 64>]}
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<shared, [[SUM]], 64>]}
// CHECK: {buffers = [#rank.buffer<shared, [[SUM]], 64>]}
// CHECK: rank.all_reduce {{.*}}buffers = [#rank.buffer<shared, [[SUM]], 64>]
// CHECK-NOT: rank.copy
func.func @microbatches(%x: tensor<4x16xf32> {graph.role = #graph.input<"x">}, %w: tensor<16xf32> {graph.role = #graph.input<"w">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %before = rank.launch @move(%w) : (tensor<16xf32>) -> tensor<16xf32>
  %s = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %t = rank.launch @add(%xi, %before) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %g = rank.launch @move(%t) : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %g : tensor<16xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %sum: tensor<16xf32>):
    %t = rank.launch @add(%xi, %before) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %n = rank.launch @add(%sum, %t) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n : tensor<16xf32>
  }
  } : (tensor<4x16xf32>) -> tensor<16xf32>
  %r = rank.all_reduce sum %s over <#mesh, {"data"}> id 0 : (tensor<16xf32>) -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// Model state is handed on in the parameter's own buffer.
// CHECK-LABEL: func.func @carried
// CHECK-SAME: graph.role = #graph.parameter<@s>, rank.buffer = #rank.buffer<private, [[S:[0-9]+]], 64>
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[S]], 64>]}
// CHECK: rank.segment "rest"
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<private, [[S]], 64>]}
// CHECK-NOT: rank.copy
func.func @carried(%x: tensor<4x16xf32> {graph.role = #graph.input<"x">}, %s: tensor<16xf32> {graph.role = #graph.parameter<@s>}) -> (tensor<16xf32> {graph.role = #graph.next<1>}) {
  %r = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%x) carry(%s) {
  rank.segment "first" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %si: tensor<16xf32>):
    %n = rank.launch @add(%si, %xi) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n : tensor<16xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %si: tensor<16xf32>):
    %n = rank.launch @add(%si, %xi) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n : tensor<16xf32>
  }
  } : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// The operands of a bucket lie one after another; views cost nothing.
// CHECK-LABEL: func.func @bucket
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<shared, 0, 64>]}
// CHECK: rank.launch @move({{.*}}) {buffers = [#rank.buffer<shared, 64, 64>]}
// CHECK: rank.all_reduce {{.*}}buffers = [#rank.buffer<shared, 0, 64>, #rank.buffer<shared, 64, 64>]
// CHECK: rank.view {{.*}}buffers = [#rank.buffer<shared, 96, 32>]
func.func @bucket(%x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}, tensor<2x4xf32> {graph.role = #graph.output<"z">}) {
  %a = rank.launch @move(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.launch @move(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %r:2 = rank.all_reduce sum %a, %b over <#mesh, {"data"}> id 0 : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  %v = rank.view %r#1 offset 8 : (tensor<16xf32>) -> tensor<2x4xf32>
  return %r#0, %v : tensor<16xf32>, tensor<2x4xf32>
}

// A device's block of an argument lies in the argument.
// CHECK-LABEL: func.func @block
// CHECK-SAME: graph.role = #graph.parameter<@w>, rank.buffer = #rank.buffer<private, [[W:[0-9]+]], 128>
// CHECK: rank.slice {{.*}}buffers = [#rank.buffer<private, [[W]], 64 step 64 over <#mesh, {"data"}>>]
func.func @block(%w: tensor<2x16xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<2x16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %b = rank.slice %w dim 0 over <#mesh, {"data"}> : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %v = rank.view %b offset 0 : (tensor<1x16xf32>) -> tensor<16xf32>
  %y = rank.launch @move(%v) : (tensor<16xf32>) -> tensor<16xf32>
  return %w, %y : tensor<2x16xf32>, tensor<16xf32>
}

// Its columns do not.
// CHECK-LABEL: func.func @columns
// CHECK: rank.slice {{.*}}buffers = [#rank.buffer<private, {{[0-9]+}}, 64>]
func.func @columns(%w: tensor<16x2xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<16x2xf32> {graph.role = #graph.next<0>}, tensor<16x1xf32> {graph.role = #graph.output<"y">}) {
  %b = rank.slice %w dim 1 over <#mesh, {"data"}> : (tensor<16x2xf32>) -> tensor<16x1xf32>
  return %w, %b : tensor<16x2xf32>, tensor<16x1xf32>
}

// An update that is split: the gradient's block is reduced where it is, the
// parameter's is updated where it is, and the gather finds it there.
// CHECK-LABEL: func.func @update
// CHECK-SAME: graph.role = #graph.parameter<@w>, rank.buffer = #rank.buffer<shared, [[W:[0-9]+]], 128>
// CHECK: rank.launch @gradient({{.*}}) {buffers = [#rank.buffer<shared, [[G:[0-9]+]], 128>]}
// CHECK: rank.reduce_scatter {{.*}}buffers = [#rank.buffer<shared, [[G]], 64 step 64 over <#mesh, {"data"}>>]
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<shared, [[W]], 64 step 64 over <#mesh, {"data"}>>]}
// CHECK: rank.all_gather {{.*}}buffers = [#rank.buffer<shared, [[W]], 128>]
// CHECK-NOT: rank.copy
rank.kernel @gradient(%x: tensor<32xf32>) -> tensor<32xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<32xf32>
}
func.func @update(%w: tensor<32xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<32xf32> {graph.role = #graph.input<"x">}) -> (tensor<32xf32> {graph.role = #graph.next<0>}) {
  %g = rank.launch @gradient(%x) : (tensor<32xf32>) -> tensor<32xf32>
  %r = rank.reduce_scatter sum %g dims [0] over <#mesh, {"data"}> id 0 : (tensor<32xf32>) -> tensor<16xf32>
  %b = rank.slice %w dim 0 over <#mesh, {"data"}> : (tensor<32xf32>) -> tensor<16xf32>
  %n = rank.launch @add(%b, %r) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %a = rank.all_gather %n dims [0] over <#mesh, {"data"}> id 1 : (tensor<16xf32>) -> tensor<32xf32>
  return %a : tensor<32xf32>
}

// The old parameter is read after the update: the new block has a place of its
// own, and the parameter is gathered elsewhere.
// CHECK-LABEL: func.func @late_block
// CHECK: rank.launch @add({{.*}}) {buffers = [#rank.buffer<shared, [[N:[0-9]+]], 64{{.*}}>]}
// CHECK: rank.copy
func.func @late_block(%w: tensor<32xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<16xf32> {graph.role = #graph.input<"x">}) -> (tensor<32xf32> {graph.role = #graph.next<0>}, tensor<32xf32> {graph.role = #graph.output<"old">}) {
  %b = rank.slice %w dim 0 over <#mesh, {"data"}> : (tensor<32xf32>) -> tensor<16xf32>
  %n = rank.launch @add(%b, %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %a = rank.all_gather %n dims [0] over <#mesh, {"data"}> id 1 : (tensor<16xf32>) -> tensor<32xf32>
  %y = rank.launch @gradient(%w) : (tensor<32xf32>) -> tensor<32xf32>
  return %a, %y : tensor<32xf32>, tensor<32xf32>
}

// A scattered sum that is kept while the most memory is in use does not keep
// the whole alive.
// CHECK-LABEL: func.func @kept
// CHECK: rank.reduce_scatter {{.*}}buffers = [#rank.buffer<shared, {{[0-9]+}}, 64>]
func.func @kept(%x: tensor<32xf32> {graph.role = #graph.input<"x">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}, tensor<32xf32> {graph.role = #graph.output<"z">}) {
  %g = rank.launch @gradient(%x) : (tensor<32xf32>) -> tensor<32xf32>
  %r = rank.reduce_scatter sum %g dims [0] over <#mesh, {"data"}> id 0 : (tensor<32xf32>) -> tensor<16xf32>
  %p = rank.launch @gradient(%x) : (tensor<32xf32>) -> tensor<32xf32>
  %q = rank.launch @gradient(%p) : (tensor<32xf32>) -> tensor<32xf32>
  %y = rank.launch @move(%r) : (tensor<16xf32>) -> tensor<16xf32>
  return %y, %q : tensor<16xf32>, tensor<32xf32>
}

// -----

// What comes from outside of the loop is needed in each microbatch, though it is
// read before another value needs its place.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<16xf32>
}
rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64>]} {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
// CHECK-LABEL: func.func @from_outside
// CHECK: rank.launch @copy({{.*}}) {buffers = [#rank.buffer<private, [[OUTSIDE:[0-9]+]], 64>]}
// CHECK: rank.segment "rest"
// CHECK-NOT: buffers = [#rank.buffer<private, [[OUTSIDE]], 64>]
// CHECK: rank.yield
func.func @from_outside(%x: tensor<4x16xf32> {graph.role = #graph.input<"x">}, %z: tensor<16xf32> {graph.role = #graph.input<"z">}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}) {
  %p = rank.launch @copy(%z) : (tensor<16xf32>) -> tensor<16xf32>
  %s = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @add(%xi, %p) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %sum: tensor<16xf32>):
    %a = rank.launch @add(%xi, %p) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %b = rank.launch @copy(%a) : (tensor<16xf32>) -> tensor<16xf32>
    %c = rank.launch @add(%b, %sum) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.yield %c : tensor<16xf32>
  }
  } : (tensor<4x16xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}
