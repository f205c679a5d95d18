// In which type each kind of op computes in a step of lower precision.

// RUN: polyrank-opt %s --split-input-file --lower-precision="precision=bf16" 2>/dev/null | FileCheck %s

// A constant that is alike at each index takes the type of the other operand.
// The product with it is computed in f32 and rounded once, with all digits of
// 0.1.

// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.+]] = graph.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[WIDE:.+]] = graph.convert %[[Y]]
// CHECK: %[[SCALED:.+]] = graph.mul %[[WIDE]], %{{.+}} : tensor<4x4xf32>
// CHECK: %[[Z:.+]] = graph.convert %[[SCALED]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK: graph.relu %[[Z]] : tensor<4x4xbf16>
func.func @step(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %x batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.constant dense<0.1> : tensor<f32>
  %tenth = graph.broadcast %c {dims = array<i64>} : (tensor<f32>) -> tensor<4x4xf32>
  %z = graph.mul %y, %tenth : tensor<4x4xf32>
  %r = graph.relu %z : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// One that the low type cannot hold demands f32, as -3.4e38 does, which would
// become an infinity; an infinity does not.

// CHECK-LABEL: func.func @step
// CHECK: %[[HIDDEN:.+]] = graph.select %{{.+}}, %{{.+}}, %{{.+}} : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: graph.relu %[[HIDDEN]] : tensor<4x4xf32>
// CHECK: graph.select {{.*}} -> tensor<4x4xf32>
// CHECK-NEXT: graph.convert {{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT: graph.relu %{{.+}} : tensor<4x4xbf16>
func.func @step(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">}, %m: tensor<4x4xi1> {graph.role = #graph.input<"m">})
    -> (tensor<4x4xf32> {graph.role = #graph.output<"y">}, tensor<4x4xf32> {graph.role = #graph.output<"z">}) {
  %y = graph.matmul %x, %x batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %least = graph.constant dense<-3.40282347E+38> : tensor<4x4xf32>
  %a = graph.select %m, %y, %least : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ra = graph.relu %a : tensor<4x4xf32>
  %none = graph.constant dense<0xFF800000> : tensor<4x4xf32>
  %b = graph.select %m, %y, %none : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %rb = graph.relu %b : tensor<4x4xf32>
  return %ra, %rb : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Sums, exponentials and norms compute in f32. A maximum is an element of its
// operand, and a scatter's result is a sum.

// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.+]] = graph.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[WIDE:.+]] = graph.convert %[[Y]]
// CHECK: graph.exp %[[WIDE]] : tensor<4x4xf32>
// CHECK: graph.softmax %[[WIDE]] {{.*}} -> tensor<4x4xf32>
// CHECK: graph.reduce sum %[[WIDE]] over [0] : (tensor<4x4xf32>) -> tensor<4xf32>
// CHECK: graph.reduce max %[[Y]] over [0] : (tensor<4x4xbf16>) -> tensor<4xbf16>
// CHECK: graph.scatter_add %{{.+}}, %[[Y]] {{.*}} : (tensor<4xi64>, tensor<4x4xbf16>) -> tensor<6x4xf32>
// CHECK: graph.compare lt %[[Y]], %[[Y]] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xi1>
func.func @step(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">}, %i: tensor<4xi64> {graph.role = #graph.input<"i">})
    -> (tensor<4x4xf32> {graph.role = #graph.output<"a">}, tensor<4x4xf32> {graph.role = #graph.output<"b">}, tensor<4xf32> {graph.role = #graph.output<"c">},
        tensor<4xf32> {graph.role = #graph.output<"d">}, tensor<6x4xf32> {graph.role = #graph.output<"e">}, tensor<4x4xi1> {graph.role = #graph.output<"f">}) {
  %y = graph.matmul %x, %x batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = graph.exp %y : tensor<4x4xf32>
  %b = graph.softmax %y {dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.reduce sum %y over [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  %d = graph.reduce max %y over [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  %e = graph.scatter_add %i, %y {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4xi64>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %f = graph.compare lt %y, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  return %a, %b, %c, %d, %e, %f : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<6x4xf32>, tensor<4x4xi1>
}

// -----

// A table that is an embedding and a head: it is read in both types, and its
// gradient is one sum in f32. The positions, which are no bias, are added in f32.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<6x4xf32>
// CHECK: %[[W16:.+]] = graph.convert %[[W]]
// CHECK: %[[ROWS:.+]] = graph.gather %[[W]], %{{.+}} -> tensor<3x4xf32>
// CHECK: %[[H:.+]] = graph.add %[[ROWS]], %{{.+}} : tensor<3x4xf32>
// CHECK: %[[H16:.+]] = graph.convert %[[H]]
// CHECK: graph.matmul %[[H16]], %[[W16]] {{.*}} -> tensor<3x6xbf16>
// CHECK: %[[DY16:.+]] = graph.convert {{.*}} -> tensor<3x6xbf16>
// CHECK: %[[DH:.+]] = graph.matmul %[[DY16]], %[[W16]] {{.*}} -> tensor<3x4xbf16>
// CHECK: %[[DHEAD:.+]] = graph.matmul %[[DY16]], %[[H16]] {{.*}} -> tensor<6x4xf32>
// CHECK: %[[DROWS:.+]] = graph.scatter_add %{{.+}}, %[[DH]] {{.*}} -> tensor<6x4xf32>
// CHECK: graph.add %[[DHEAD]], %[[DROWS]] : tensor<6x4xf32>
func.func @step(%w: tensor<6x4xf32> {graph.role = #graph.parameter<@w>}, %p: tensor<3x4xf32> {graph.role = #graph.parameter<@p>},
                %i: tensor<3xi64> {graph.role = #graph.input<"i">})
    -> (tensor<6x4xf32> {graph.role = #graph.next<0>}, tensor<3x4xf32> {graph.role = #graph.next<1>}, tensor<f32> {graph.role = #graph.output<"loss">}) {
  %rows = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<6x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %h = graph.add %rows, %p : tensor<3x4xf32>
  %y = graph.matmul %h, %w batch [] x [] contract [1] x [1] : (tensor<3x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
  %loss = graph.reduce sum %y over [0, 1] : (tensor<3x6xf32>) -> tensor<f32>
  %seed = graph.seed 1.0 : tensor<f32>
  %dy = graph.broadcast %seed {dims = array<i64>} : (tensor<f32>) -> tensor<3x6xf32>
  %dh = graph.matmul %dy, %w batch [] x [] contract [1] x [0] : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
  %dhead = graph.matmul %dy, %h batch [] x [] contract [0] x [0] : (tensor<3x6xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %drows = graph.scatter_add %i, %dh {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3xi64>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %dw = graph.add %dhead, %drows : tensor<6x4xf32>
  %gw = graph.gradient %dw of @w : tensor<6x4xf32>
  %nw = graph.sub %w, %gw : tensor<6x4xf32>
  return %nw, %p, %loss : tensor<6x4xf32>, tensor<3x4xf32>, tensor<f32>
}

// -----

// Attention: queries, keys and values are low, its bias and the logarithms of
// its sums f32.

// CHECK-LABEL: func.func @step
// CHECK: graph.attention %{{.+}}, %{{.+}}, %{{.+}} bias %{{.+}} {{.*}} : (tensor<2x1x4x2xbf16>, tensor<2x1x4x2xbf16>, tensor<2x1x4x2xbf16>, tensor<1x1x4x4xf32>) -> (tensor<2x1x4x2xbf16>, tensor<2x1x4xf32>)
func.func @step(%x: tensor<2x1x4x2xf32> {graph.role = #graph.input<"x">}, %b: tensor<1x1x4x4xf32> {graph.role = #graph.parameter<@b>})
    -> (tensor<2x1x4x2xf32> {graph.role = #graph.output<"y">}, tensor<1x1x4x4xf32> {graph.role = #graph.next<1>}) {
  %y, %lse = graph.attention %x, %x, %x bias %b {scale = 0.5 : f64, causal = false}
     : (tensor<2x1x4x2xf32>, tensor<2x1x4x2xf32>, tensor<2x1x4x2xf32>, tensor<1x1x4x4xf32>) -> (tensor<2x1x4x2xf32>, tensor<2x1x4xf32>)
  return %y, %b : tensor<2x1x4x2xf32>, tensor<1x1x4x4xf32>
}

// -----

// A product of f64 stays one.

// CHECK-LABEL: func.func @step
// CHECK-NOT: bf16
// CHECK: graph.matmul {{.*}} -> tensor<4x4xf64>
func.func @step(%x: tensor<4x4xf64> {graph.role = #graph.input<"x">}) -> (tensor<4x4xf64> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %x batch [] x [] contract [1] x [0] : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %y : tensor<4x4xf64>
}

// -----

// A recurrent layer: its weight is converted once, before the loop, and what an
// iteration hands to the next stays f32.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK: %[[W16:.+]] = graph.convert %[[W]]
// CHECK: graph.scan 16 of({{.*}}) carry({{.*}}) uses(%[[W16]]) {
// CHECK: ^bb0(%{{.+}}: tensor<4x8xf32>, %[[H:.+]]: tensor<4x8xf32>, %[[USED:.+]]: tensor<8x8xbf16>):
// CHECK: %[[H16:.+]] = graph.convert %[[H]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: graph.matmul %[[H16]], %[[USED]] {{.*}} -> tensor<4x8xbf16>
// CHECK: graph.scan_yield stack(%{{.+}}) carry(%{{.+}}) : tensor<4x8xf32>, tensor<4x8xf32>
func.func @step(%w: tensor<8x8xf32> {graph.role = #graph.parameter<@w>}, %xs: tensor<16x4x8xf32> {graph.role = #graph.input<"x">}, %h: tensor<4x8xf32> {graph.role = #graph.input<"h">})
    -> (tensor<8x8xf32> {graph.role = #graph.next<0>}, tensor<16x4x8xf32> {graph.role = #graph.output<"y">}, tensor<4x8xf32> {graph.role = #graph.output<"last">}) {
  %ys, %last = graph.scan 16 of(%xs) carry(%h) uses(%w) {
  ^bb0(%x: tensor<4x8xf32>, %before: tensor<4x8xf32>, %weight: tensor<8x8xf32>):
    %product = graph.matmul %before, %weight batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %sum = graph.add %x, %product : tensor<4x8xf32>
    %next = graph.tanh %sum : tensor<4x8xf32>
    graph.scan_yield stack(%next) carry(%next) : tensor<4x8xf32>, tensor<4x8xf32>
  } : (tensor<16x4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<16x4x8xf32>, tensor<4x8xf32>)
  return %w, %ys, %last : tensor<8x8xf32>, tensor<16x4x8xf32>, tensor<4x8xf32>
}

// -----

// A loop that hands a product on: the value is widened at the end of each
// iteration. Positions, which have more elements than the product's weight has
// outputs, are no bias: the sum with them is f32.

// CHECK-LABEL: func.func @step
// CHECK: graph.scan 16
// CHECK: %[[PRODUCT:.+]] = graph.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[NEXT:.+]] = graph.convert %[[PRODUCT]] : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: graph.scan_yield stack() carry(%[[NEXT]]) : tensor<4x8xf32>
// CHECK: %[[Y:.+]] = graph.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[Y32:.+]] = graph.convert %[[Y]]
// CHECK: %[[SUM:.+]] = graph.add %[[Y32]], %{{.+}} : tensor<4x8xf32>
// CHECK: graph.relu %[[SUM]] : tensor<4x8xf32>
func.func @step(%w: tensor<8x8xf32> {graph.role = #graph.parameter<@w>}, %p: tensor<4x8xf32> {graph.role = #graph.parameter<@p>}, %h: tensor<4x8xf32> {graph.role = #graph.input<"h">})
    -> (tensor<8x8xf32> {graph.role = #graph.next<0>}, tensor<4x8xf32> {graph.role = #graph.next<1>}, tensor<4x8xf32> {graph.role = #graph.output<"y">}) {
  %last = graph.scan 16 of() carry(%h) uses(%w) {
  ^bb0(%before: tensor<4x8xf32>, %weight: tensor<8x8xf32>):
    %next = graph.matmul %before, %weight batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    graph.scan_yield stack() carry(%next) : tensor<4x8xf32>
  } : (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>)
  %y = graph.matmul %last, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %z = graph.add %y, %p : tensor<4x8xf32>
  %r = graph.relu %z : tensor<4x8xf32>
  return %w, %p, %r : tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
