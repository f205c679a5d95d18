// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// Loops whose buffers are wrong are rejected. The first one is right.

rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
func.func @right(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}, %h: tensor<16xf32> {graph.role = #graph.input<"h">, rank.buffer = #rank.buffer<private, 192, 64>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 576>} {
  %c = rank.copy %h {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %y, %l = rank.loop 3 reversed of(%x) carry(%c) uses(%h) {
  ^bb0(%e: tensor<16xf32>, %s: tensor<16xf32>, %u: tensor<16xf32>):
    %t = rank.launch @add(%e, %u) {buffers = [#rank.buffer<private, 512, 64>]} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %n = rank.launch @add(%t, %s) {buffers = [#rank.buffer<private, 448, 64 each -64>]} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %k = rank.copy %n {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n, %k : tensor<16xf32>, tensor<16xf32>
  } {buffers = [#rank.buffer<private, 320, 192>, #rank.buffer<private, 256, 64>]} : (tensor<3x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<3x16xf32>, tensor<16xf32>)
  return %y : tensor<3x16xf32>
}

// -----
// The first iteration finds the carried value elsewhere.
func.func @start(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}, %h: tensor<16xf32> {graph.role = #graph.input<"h">, rank.buffer = #rank.buffer<private, 192, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 320>} {
  // expected-error @+1 {{carries #rank.buffer<private, 192, 64> on at #rank.buffer<private, 256, 64>}}
  %l = rank.loop 3 of(%x) carry(%h) uses() {
  ^bb0(%e: tensor<16xf32>, %s: tensor<16xf32>):
    %k = rank.copy %e {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %k : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<3x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %l : tensor<16xf32>
}

// -----
// What an iteration gives lies where the next one does not look.
func.func @given(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 448>} {
  %y = rank.loop 3 of(%x) carry() uses() {
  ^bb0(%e: tensor<16xf32>):
    %k = rank.copy %e {buffers = [#rank.buffer<private, 320, 64 each -64>]} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{value 0 lies at #rank.buffer<private, 320, 64 each -64>, where the loop's result wants it at #rank.buffer<private, 192, 64 each 64>}}
    rank.yield %k : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 192, 192>]} : (tensor<3x16xf32>) -> tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}

// -----
// The second iteration's temporary takes the place of the first one's element.
func.func @lost(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 448>} {
  // expected-error @+1 {{result 0 has lost the element of iteration 0, which lay at #rank.buffer<private, 192, 64 each 64>}}
  %y = rank.loop 3 of(%x) carry() uses() {
  ^bb0(%e: tensor<16xf32>):
    %t = rank.copy %e {buffers = [#rank.buffer<private, 192, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %m = rank.copy %t {buffers = [#rank.buffer<private, 384, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %k = rank.copy %m {buffers = [#rank.buffer<private, 192, 64 each 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %k : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 192, 192>]} : (tensor<3x16xf32>) -> tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}

// -----
// What all iterations use is there for the first one alone.
rank.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %0 = graph.add %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
func.func @used(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}, %h: tensor<16xf32> {graph.role = #graph.input<"h">, rank.buffer = #rank.buffer<private, 192, 64>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %u = rank.copy %h {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %y = rank.loop 3 of(%x) carry() uses(%u) {
  ^bb0(%e: tensor<16xf32>, %v: tensor<16xf32>):
    // expected-error @+1 {{operand 1 was overwritten: #rank.buffer<private, 256, 64> does not hold it in microbatch 0}}
    %n = rank.launch @add(%e, %v) {buffers = [#rank.buffer<private, 320, 64 each 64>]} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %t = rank.copy %n {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 320, 192>]} : (tensor<3x16xf32>, tensor<16xf32>) -> tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}

// -----
// The last iteration would write behind the arena.
func.func @behind(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %y = rank.loop 3 of(%x) carry() uses() {
  ^bb0(%e: tensor<16xf32>):
    // expected-error @+1 {{buffer #rank.buffer<private, 448, 64 each 64> ends at 640, behind the region's 512}}
    %t = rank.copy %e {buffers = [#rank.buffer<private, 448, 64 each 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %k = rank.copy %t {buffers = [#rank.buffer<private, 192, 64 each 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %k : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 192, 192>]} : (tensor<3x16xf32>) -> tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}

// -----
// The last one would write in front of it.
func.func @before(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}) -> (tensor<3x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %y = rank.loop 3 of(%x) carry() uses() {
  ^bb0(%e: tensor<16xf32>):
    // expected-error @+1 {{buffer #rank.buffer<private, 64, 64 each -64> begins at -64, in front of the region}}
    %t = rank.copy %e {buffers = [#rank.buffer<private, 64, 64 each -64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %k = rank.copy %t {buffers = [#rank.buffer<private, 192, 64 each 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %k : tensor<16xf32>
  } {buffers = [#rank.buffer<private, 192, 192>]} : (tensor<3x16xf32>) -> tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}

// -----
// A stack lies on what a carried value starts with.
func.func @results(%x: tensor<3x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 192>}, %h: tensor<16xf32> {graph.role = #graph.input<"h">, rank.buffer = #rank.buffer<private, 192, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %c = rank.copy %h {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{result 0 at #rank.buffer<private, 256, 192> overwrites operand 1 at #rank.buffer<private, 256, 64>, which it still reads}}
  %y, %l = rank.loop 3 of(%x) carry(%c) uses() {
  ^bb0(%e: tensor<16xf32>, %s: tensor<16xf32>):
    %n = rank.copy %s {buffers = [#rank.buffer<private, 256, 64 each 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %k = rank.copy %e {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %n, %k : tensor<16xf32>, tensor<16xf32>
  } {buffers = [#rank.buffer<private, 256, 192>, #rank.buffer<private, 256, 64>]} : (tensor<3x16xf32>, tensor<16xf32>) -> (tensor<3x16xf32>, tensor<16xf32>)
  return %l : tensor<16xf32>
}
