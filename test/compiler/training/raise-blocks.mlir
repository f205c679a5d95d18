// Reductions of consecutive blocks that are put together are one reduction.

// RUN: polyrank-opt %s -split-input-file --raise-composites | FileCheck %s

// Bags of two rows each: means, the last of them in another form, as a loop
// over bags is exported.

// CHECK-LABEL: func.func @forward
// CHECK: %[[BLOCKS:.+]] = graph.reshape %{{.+}} : (tensor<6x4xf32>) -> tensor<3x2x4xf32>
// CHECK: %[[SUM:.+]] = graph.reduce sum %[[BLOCKS]] over [1]
// CHECK: %[[MEAN:.+]] = graph.div %[[SUM]]
// CHECK: return %[[MEAN]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<3x4xf32> {graph.role = #graph.output<"y">}) {
  %two = graph.constant dense<2.0> : tensor<f32>
  %n = graph.broadcast %two {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %m = graph.broadcast %two {dims = array<i64>} : (tensor<f32>) -> tensor<1x4xf32>
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %c = graph.slice %x {starts = array<i64: 4, 0>, limits = array<i64: 6, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce sum %a over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce sum %b over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %sc = graph.reduce sum %c over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %ma = graph.div %sa, %n : tensor<4xf32>
  %mb = graph.div %sb, %n : tensor<4xf32>
  %ra = graph.reshape %ma : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %mb : (tensor<4xf32>) -> tensor<1x4xf32>
  %rc = graph.reshape %sc : (tensor<4xf32>) -> tensor<1x4xf32>
  %mc = graph.div %rc, %m : tensor<1x4xf32>
  %y = graph.concat %ra, %rb, %mc {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Part of the dim: what the blocks cover is cut out first.

// CHECK-LABEL: func.func @forward
// CHECK: %[[CUT:.+]] = graph.slice %{{.+}} {limits = array<i64: 5, 4>, starts = array<i64: 1, 0>
// CHECK: %[[BLOCKS:.+]] = graph.reshape %[[CUT]] : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
// CHECK: %[[MAX:.+]] = graph.reduce max %[[BLOCKS]] over [1] {first}
// CHECK: return %[[MAX]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 1, 0>, limits = array<i64: 3, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 3, 0>, limits = array<i64: 5, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce max %a over [0] {first} : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce max %b over [0] {first} : (tensor<2x4xf32>) -> tensor<4xf32>
  %ra = graph.reshape %sa : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %sb : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Blocks of unequal sizes, out of order, reduced or divided in unlike ways, of
// two tensors, or with gaps stay as they are.

// CHECK-LABEL: func.func @forward
// CHECK-COUNT-6: graph.concat
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %z: tensor<6x4xf32> {graph.role = #graph.input<"z">})
    -> (tensor<2x4xf32> {graph.role = #graph.output<"a">}, tensor<2x4xf32> {graph.role = #graph.output<"b">}, tensor<2x4xf32> {graph.role = #graph.output<"c">},
        tensor<2x4xf32> {graph.role = #graph.output<"d">}, tensor<2x4xf32> {graph.role = #graph.output<"e">}, tensor<2x4xf32> {graph.role = #graph.output<"f">}) {
  %two = graph.constant dense<2.0> : tensor<f32>
  %n = graph.broadcast %two {dims = array<i64>} : (tensor<f32>) -> tensor<1x4xf32>
  %first = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %second = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %third = graph.slice %x {starts = array<i64: 4, 0>, limits = array<i64: 6, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %long = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 5, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<3x4xf32>
  %other = graph.slice %z {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %s1 = graph.reduce sum %first over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %s2 = graph.reduce sum %second over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %s3 = graph.reduce sum %third over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %s4 = graph.reduce sum %long over [0] : (tensor<3x4xf32>) -> tensor<4xf32>
  %s5 = graph.reduce sum %other over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %m2 = graph.reduce max %second over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %r1 = graph.reshape %s1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %r2 = graph.reshape %s2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %r3 = graph.reshape %s3 : (tensor<4xf32>) -> tensor<1x4xf32>
  %r4 = graph.reshape %s4 : (tensor<4xf32>) -> tensor<1x4xf32>
  %r5 = graph.reshape %s5 : (tensor<4xf32>) -> tensor<1x4xf32>
  %r6 = graph.reshape %m2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %d2 = graph.div %r2, %n : tensor<1x4xf32>
  %a = graph.concat %r1, %r4 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %b = graph.concat %r2, %r1 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %c = graph.concat %r1, %r6 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %d = graph.concat %r1, %d2 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %e = graph.concat %r1, %r5 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %f = graph.concat %r1, %r3 {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %a, %b, %c, %d, %e, %f : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Of several that are largest, one takes the first, the other all of them.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce max %a over [0] {first} : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce max %b over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %ra = graph.reshape %sa : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %sb : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Every second row.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 3, 4>, strides = array<i64: 2, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 3, 0>, limits = array<i64: 6, 4>, strides = array<i64: 2, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce sum %a over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce sum %b over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %ra = graph.reshape %sa : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %sb : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// One column of them.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x1xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x1xf32>
  %b = graph.slice %x {starts = array<i64: 2, 1>, limits = array<i64: 4, 2>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x1xf32>
  %sa = graph.reduce sum %a over [0] : (tensor<2x1xf32>) -> tensor<1xf32>
  %sb = graph.reduce sum %b over [0] : (tensor<2x1xf32>) -> tensor<1xf32>
  %ra = graph.reshape %sa : (tensor<1xf32>) -> tensor<1x1xf32>
  %rb = graph.reshape %sb : (tensor<1xf32>) -> tensor<1x1xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
  return %y : tensor<2x1xf32>
}

// -----

// Reduced over the columns.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<8x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %b = graph.slice %x {starts = array<i64: 4, 0>, limits = array<i64: 8, 4>, strides = array<i64: 1, 1>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %sa = graph.reduce sum %a over [1] : (tensor<4x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce sum %b over [1] : (tensor<4x4xf32>) -> tensor<4xf32>
  %ra = graph.reshape %sa : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %sb : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Divided by what the model computes.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}, %n: tensor<4xf32> {graph.role = #graph.input<"n">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce sum %a over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce sum %b over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %da = graph.div %sa, %n : tensor<4xf32>
  %db = graph.div %sb, %n : tensor<4xf32>
  %ra = graph.reshape %da : (tensor<4xf32>) -> tensor<1x4xf32>
  %rb = graph.reshape %db : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Put together as one column.

// CHECK-LABEL: func.func @forward
// CHECK: %[[PARTS:.+]] = graph.concat
// CHECK: return %[[PARTS]]
func.func @forward(%x: tensor<6x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<8x1xf32> {graph.role = #graph.output<"y">}) {
  %a = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %b = graph.slice %x {starts = array<i64: 2, 0>, limits = array<i64: 4, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %sa = graph.reduce sum %a over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %sb = graph.reduce sum %b over [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %ra = graph.reshape %sa : (tensor<4xf32>) -> tensor<4x1xf32>
  %rb = graph.reshape %sb : (tensor<4xf32>) -> tensor<4x1xf32>
  %y = graph.concat %ra, %rb {dim = 0 : i64} : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}
