// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// Programs whose buffers are wrong are rejected.

rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @overwritten(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 192>} {
  %a = rank.launch @copy(%x) {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.launch @copy(%x) {buffers = [#rank.buffer<private, 96, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 64> does not hold it in microbatch 0}}
  %c = rank.launch @copy(%a) {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @in_place(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{result 0 at #rank.buffer<private, 0, 64> overwrites operand 0 at #rank.buffer<private, 0, 64>, which it still reads}}
  %a = rank.launch @copy(%x) {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
func.func @outside(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 100>} {
  // expected-error @+1 {{buffer #rank.buffer<private, 64, 64> ends at 128, behind the region's 100}}
  %a = rank.copy %x {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @unreachable(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 64, private = 64>} {
  // expected-error @+1 {{moves bytes that peers cannot reach}}
  %a = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// The next step finds its parameter elsewhere.
func.func @moved(%x: tensor<16xf32> {graph.role = #graph.parameter<@x>, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.next<0>})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  %a = rank.copy %x {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{result 0 lies at #rank.buffer<private, 64, 64>, the argument that it replaces at #rank.buffer<private, 0, 64>}}
  return %a : tensor<16xf32>
}

// -----
// The second microbatch overwrites the third one's sum.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @lost_sum(%x: tensor<4x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 256>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %s = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %sum: tensor<16xf32>):
    // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 256, 64> does not hold it in microbatch 2}}
    %b = rank.launch @copy(%sum) {buffers = [#rank.buffer<private, 320, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %b : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<4x16xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----
// The first device's block is there, the second one's is not.
#mesh = #sharding.mesh<["data"=2]>
func.func @another_block(%x: tensor<32xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 64> overwrites operand 0 at #rank.buffer<shared, 0, 128>, which it still reads}}
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 64>]} : (tensor<32xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
#mesh = #sharding.mesh<["data"=4]>
func.func @block_outside(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{buffer #rank.buffer<shared, 64, 16 step 32 over <#sharding.mesh<["data"=4]>, {"data"}>> ends at 176, behind the region's 128}}
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 64, 16 step 32 over <#mesh, {"data"}>>]} : (tensor<16xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----
// What was scattered in place is no longer there as a whole.
#mesh = #sharding.mesh<["data"=2]>
rank.kernel @copy(%x: tensor<32xf32>) -> tensor<32xf32> {
  rank.return %x : tensor<32xf32>
}
func.func @whole_after_block(%x: tensor<32xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<32xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<32xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten}}
  %b = rank.launch @copy(%x) {buffers = [#rank.buffer<private, 0, 128>]} : (tensor<32xf32>) -> tensor<32xf32>
  return %b : tensor<32xf32>
}

// -----
// A write that begins before a value and ends in it.
func.func @first_bytes(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 320>} {
  %a = rank.copy %x {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<private, 68, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64> does not hold it in microbatch 0}}
  %c = rank.copy %a {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// A write that begins at the last element of a value.
func.func @last_bytes(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 320>} {
  %a = rank.copy %x {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<private, 188, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64> does not hold it in microbatch 0}}
  %c = rank.copy %a {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// A write in the middle of a value.
func.func @middle(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}, %s: tensor<f32> {graph.role = #graph.input<"s">, rank.buffer = #rank.buffer<private, 64, 4>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 256>} {
  %a = rank.copy %x {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %s {buffers = [#rank.buffer<private, 160, 4>]} : (tensor<f32>) -> tensor<f32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64> does not hold it in microbatch 0}}
  %c = rank.copy %a {buffers = [#rank.buffer<private, 192, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// A buffer that is smaller than what is written to it.
func.func @short(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  // expected-error @+1 {{buffer #rank.buffer<private, 64, 32> is not of the size of 'tensor<16xf32>'}}
  %a = rank.copy %x {buffers = [#rank.buffer<private, 64, 32>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// A view that does not lie where its elements are.
func.func @view(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<8xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  %v = rank.view %x offset 8 {buffers = [#rank.buffer<private, 0, 32>]} : (tensor<16xf32>) -> tensor<8xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 0, 32> does not hold it in microbatch 0}}
  %a = rank.copy %v {buffers = [#rank.buffer<private, 64, 32>]} : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----
// Two results in the same bytes.
rank.kernel @both(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  rank.return %x, %x : tensor<16xf32>, tensor<16xf32>
}
func.func @results(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}, tensor<16xf32> {graph.role = #graph.output<"z">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 256>} {
  // expected-error @+1 {{results 0 and 1 overlap}}
  %a:2 = rank.launch @both(%x) {buffers = [#rank.buffer<private, 64, 64>, #rank.buffer<private, 124, 64>]} : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return %a#0, %a#1 : tensor<16xf32>, tensor<16xf32>
}

// -----
// A kernel may write where it reads, but not one element further.
rank.kernel @neg(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.neg %x : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
func.func @shifted(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  %a = rank.launch @neg(%x) {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{result 0 at #rank.buffer<private, 4, 64> overwrites operand 0 at #rank.buffer<private, 0, 64>, which it still reads}}
  %b = rank.launch @neg(%a) {buffers = [#rank.buffer<private, 4, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %b : tensor<16xf32>
}

// -----
// A kernel that may write where it reads one operand, in the place of the other.
rank.kernel @sub(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = [array<i64: 1>]} {
  %0 = graph.sub %x, %y : tensor<16xf32>
  rank.return %0 : tensor<16xf32>
}
func.func @other_operand(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}, %y: tensor<16xf32> {graph.role = #graph.input<"y">, rank.buffer = #rank.buffer<private, 64, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  // expected-error @+1 {{result 0 at #rank.buffer<private, 0, 64> overwrites operand 0 at #rank.buffer<private, 0, 64>, which it still reads}}
  %a = rank.launch @sub(%x, %y) {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// all_gather finds its operand in its result: in this device's own block.
#mesh = #sharding.mesh<["data"=2]>
func.func @gathered(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 64, 64>}) -> (tensor<32xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 128> overwrites operand 0 at #rank.buffer<shared, 64, 64>, which it still reads}}
  %a = rank.all_gather %x dims [0] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 128>]} : (tensor<16xf32>) -> tensor<32xf32>
  return %a : tensor<32xf32>
}

// -----
// Rows of the result lie between the rows of an operand: its columns are no block of it, though the numbers fit.
#mesh = #sharding.mesh<["data"=2]>
func.func @columns(%x: tensor<1x4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64 step 64 over <#mesh, {"data"}>>}) -> (tensor<1x4x8xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 128> overwrites operand 0 at}}
  %a = rank.all_gather %x dims [2] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 128>]} : (tensor<1x4x4xf32>) -> tensor<1x4x8xf32>
  return %a : tensor<1x4x8xf32>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @scattered_columns(%x: tensor<1x4x8xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<1x4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 64 step 64}}
  %a = rank.reduce_scatter sum %x dims [2] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<1x4x8xf32>) -> tensor<1x4x4xf32>
  return %a : tensor<1x4x4xf32>
}

// -----
// A dim of size 1 in front is none.
#mesh = #sharding.mesh<["data"=2]>
func.func @rows(%x: tensor<1x4x8xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<1x2x8xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  %a = rank.reduce_scatter sum %x dims [1] over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<shared, 0, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<1x4x8xf32>) -> tensor<1x2x8xf32>
  return %a : tensor<1x2x8xf32>
}

// -----
// The first device and the last one write to their own blocks, the two others to each other's.
#mesh = #sharding.mesh<["a"=2, "b"=2]>
func.func @transposed(%x: tensor<64xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 256>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 256, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 64 step 64 over <#sharding.mesh<["a"=2, "b"=2]>, {"b", "a"}>> overwrites operand 0}}
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"a", "b"}> id 0 {buffers = [#rank.buffer<shared, 0, 64 step 64 over <#mesh, {"b", "a"}>>]} : (tensor<64xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// A block of what is itself one of the arena's blocks is copied: where it lies depends on both axes.
#mesh = #sharding.mesh<["a"=2, "b"=2]>
func.func @block_of_a_block(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64 step 64 over <#mesh, {"a"}>>}) -> (tensor<8xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 0>} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 32 step 32 over <#sharding.mesh<["a"=2, "b"=2]>, {"b"}>> overwrites operand 0 at}}
  %a = rank.slice %x dim 0 over <#mesh, {"b"}> {buffers = [#rank.buffer<shared, 0, 32 step 32 over <#mesh, {"b"}>>]} : (tensor<16xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----
// Only on the first device the value's block is overwritten.
#mesh = #sharding.mesh<["data"=3]>
func.func @first_device(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 320, private = 0>} {
  %a = rank.copy %x {buffers = [#rank.buffer<shared, 64, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<shared, 64, 64 step 64 over <#sharding.mesh<["data"=3]>}}
  %c = rank.copy %a {buffers = [#rank.buffer<shared, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// Only on the one in the middle.
#mesh = #sharding.mesh<["data"=3]>
func.func @middle_device(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 320, private = 0>} {
  %a = rank.copy %x {buffers = [#rank.buffer<shared, 64, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<shared, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<shared, 64, 64 step 64 over <#sharding.mesh<["data"=3]>}}
  %c = rank.copy %a {buffers = [#rank.buffer<shared, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// Only on the last one.
#mesh = #sharding.mesh<["data"=3]>
func.func @last_device(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 320, private = 0>} {
  %a = rank.copy %x {buffers = [#rank.buffer<shared, 64, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<shared, 192, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<shared, 64, 64 step 64 over <#sharding.mesh<["data"=3]>}}
  %c = rank.copy %a {buffers = [#rank.buffer<shared, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
// Behind the end of the shared region, though the private one is longer.
func.func @shared_outside(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 64, private = 128>} {
  // expected-error @+1 {{buffer #rank.buffer<shared, 64, 64> ends at 128, behind the region's 64}}
  %a = rank.copy %x {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// Before the region's beginning.
func.func @before(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  // expected-error @+1 {{buffer #rank.buffer<private, -64, 64> begins at -64, in front of the region}}
  %a = rank.copy %x {buffers = [#rank.buffer<private, -64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// expected-error @+1 {{buffer #rank.buffer<private, 64, 64> ends at 128, behind the region's 64}}
func.func @argument_outside(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 64, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 64>} {
  return %x : tensor<16xf32>
}

// -----
func.func @constant_outside() -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{buffer #rank.buffer<private, 64, 64> ends at 128, behind the region's 64}}
  %x = rank.constant {buffers = [#rank.buffer<private, 64, 64>]} dense<1.0> : tensor<16xf32>
  return %x : tensor<16xf32>
}

// -----
func.func @no_buffer(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{has a value without a buffer}}
  %a = rank.copy %x : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// expected-error @+1 {{has no buffers: assign-buffers comes first}}
func.func @unassigned(%x: tensor<16xf32>) -> tensor<16xf32> {
  return %x : tensor<16xf32>
}

// -----
// The sum is not where the loop's result is, in which the others look for it.
func.func @lost_result(%x: tensor<4x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 256>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 448>} {
  %s = rank.microbatches [0:0, 1:1, 1:2, 1:3] of(%x) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.copy %xi {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %sum: tensor<16xf32>):
    // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 384, 64> does not hold it in microbatch 1}}
    rank.yield %sum : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 384, 64>]} : (tensor<4x16xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----
#mesh = #sharding.mesh<["data"=2]>
func.func @unreachable_result(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 64, private = 64>} {
  // expected-error @+1 {{moves bytes that peers cannot reach}}
  %a = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// A product reads its operands until it ends.
func.func @gemm_in_place(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{result 0 at #rank.buffer<private, 0, 64> overwrites operand 0 at #rank.buffer<private, 0, 64>, which it still reads}}
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// -----
// What the library needs during a product overwrites an operand, the result, or another value.
func.func @scratch_over_operand(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 0, 64> does not hold it in microbatch 0}}
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 64, 64>], scratch = #rank.buffer<private, 60, 4>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// -----
func.func @scratch_over_result(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 192>} {
  // expected-error @+1 {{result 0 at #rank.buffer<private, 64, 64> overlaps the scratch at #rank.buffer<private, 124, 8>}}
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 64, 64>], scratch = #rank.buffer<private, 124, 8>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// -----
func.func @scratch_over_value(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 192>} {
  %b = rank.copy %x {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 128, 64>], scratch = #rank.buffer<private, 64, 8>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 64> does not hold it in microbatch 0}}
  return %b : tensor<4x4xf32>
}

// -----
func.func @scratch_outside(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 132>} {
  // expected-error @+1 {{buffer #rank.buffer<private, 128, 8> ends at 136, behind the region's 132}}
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 64, 64>], scratch = #rank.buffer<private, 128, 8>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// -----
// A product is added to what its buffer holds.
func.func @addend_elsewhere(%x: tensor<4x4xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}, %c: tensor<4x4xf32> {graph.role = #graph.input<"c">, rank.buffer = #rank.buffer<private, 64, 64>}) -> (tensor<4x4xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 192>} {
  // expected-error @+1 {{result does not lie in the addend's buffer}}
  %a = rank.gemm %x at [0, 4, 1], %x at [0, 4, 1] add %c sizes [4, 4, 4] row 4 batch [] {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// -----
// The constant is written once, at load: the second step does not find it.
func.func @constant(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 192>} {
  %c = rank.constant {buffers = [#rank.buffer<private, 64, 64>]} dense<1.0> : tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 64> does not hold it in microbatch 0}}
  %a = rank.copy %c {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %x {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// The next step needs a parameter that does not change, too.
func.func @parameter(%w: tensor<16xf32> {graph.role = #graph.parameter<@w>, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.next<0>}, tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  %a = rank.copy %w {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %a {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 0, 64> does not hold it in microbatch 0}}
  return %w, %a : tensor<16xf32>, tensor<16xf32>
}

// -----
// Of a constant whose elements the microbatches take, the second step needs all.
func.func @elements() -> (tensor<i64> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 40>} {
  %c = rank.constant {buffers = [#rank.buffer<private, 0, 32>]} dense<[0, 1, 2, 3]> : tensor<4xi64>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 0, 32> does not hold it in microbatch 0}}
  %s = rank.microbatches [0:0, 1:1, 1:2] of(%c) carry() {
  rank.segment "first" takes [] gives [0] {
  ^bb0(%i: tensor<i64>):
    %a = rank.copy %i {buffers = [#rank.buffer<private, 32, 8>]} : (tensor<i64>) -> tensor<i64>
    rank.yield %a : tensor<i64>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%i: tensor<i64>, %sum: tensor<i64>):
    %b = rank.copy %i {buffers = [#rank.buffer<private, 32, 8>]} : (tensor<i64>) -> tensor<i64>
    rank.yield %b : tensor<i64>
  }
  } {buffers = [#rank.buffer<private, 32, 8>]} : (tensor<4xi64>) -> tensor<i64>
  %t = rank.copy %s {buffers = [#rank.buffer<private, 8, 8>]} : (tensor<i64>) -> tensor<i64>
  return %s : tensor<i64>
}

// -----
// An input is new in each step: when it has been read its bytes are free.
func.func @input(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 128>} {
  %a = rank.copy %x {buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.copy %a {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %b : tensor<16xf32>
}

// -----
// A collective reads its operand until its wait.
#mesh = #sharding.mesh<["data"=2]>
func.func @operand_in_flight(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %c = rank.constant {buffers = [#rank.buffer<private, 0, 32>]} dense<1.0> : tensor<8xf32>
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  // expected-error @+1 {{writes #rank.buffer<shared, 32, 32> while the collective with id 7 is still reading #rank.buffer<shared, 0, 64>}}
  %z = rank.copy %c {buffers = [#rank.buffer<shared, 32, 32>]} : (tensor<8xf32>) -> tensor<8xf32>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----
// It writes its result until its wait, whoever else would read that.
#mesh = #sharding.mesh<["data"=2]>
func.func @result_in_flight(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %c = rank.constant {buffers = [#rank.buffer<private, 0, 32>]} dense<1.0> : tensor<8xf32>
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  // expected-error @+1 {{writes #rank.buffer<shared, 64, 32> while the collective with id 7 is still writing #rank.buffer<shared, 64, 64>}}
  %z = rank.copy %c {buffers = [#rank.buffer<shared, 64, 32>]} : (tensor<8xf32>) -> tensor<8xf32>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %x : tensor<16xf32>
}

// -----
// No product works there either.
#mesh = #sharding.mesh<["data"=2]>
func.func @scratch_in_flight(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %c = rank.constant {buffers = [#rank.buffer<private, 0, 64>]} dense<1.0> : tensor<4x4xf32>
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  // expected-error @+1 {{writes #rank.buffer<shared, 64, 64> while the collective with id 7 is still writing #rank.buffer<shared, 64, 64>}}
  %z = rank.gemm %c at [0, 4, 1], %c at [0, 4, 1] sizes [4, 4, 4] row 4 batch [] {scratch = #rank.buffer<shared, 64, 64>, buffers = [#rank.buffer<private, 64, 64>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %x : tensor<16xf32>
}

// -----
// Nor does another collective write there.
#mesh = #sharding.mesh<["data"=2]>
func.func @another_in_flight(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  // expected-error @+1 {{writes #rank.buffer<shared, 64, 64> while the collective with id 7 is still writing #rank.buffer<shared, 64, 64>}}
  %q = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 8 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  %z = rank.wait %q of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %x : tensor<16xf32>
}

// -----
// Someone waits for it in the same block.
#mesh = #sharding.mesh<["data"=2]>
func.func @nobody_waits(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  // expected-error @+1 {{is started and nobody waits for it in its block}}
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  return %x : tensor<16xf32>
}

// -----
// Once.
#mesh = #sharding.mesh<["data"=2]>
func.func @waits_twice(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{waits for what is not in flight}}
  %z = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----
// The result lies where the collective puts it.
#mesh = #sharding.mesh<["data"=2]>
func.func @moved_by_waiting(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 192, private = 0>} {
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 128, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<shared, 128, 64> does not hold it in microbatch 0}}
  return %y : tensor<16xf32>
}

// -----
// What neither reads nor writes that may happen in between, and what reads the
// operand.
#mesh = #sharding.mesh<["data"=2]>
func.func @meanwhile(%x: tensor<16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 128, private = 128>} {
  %p = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 7 {buffers = [#rank.buffer<shared, 64, 64>]} : (tensor<16xf32>) -> !rank.pending<tensor<16xf32>>
  %z = rank.copy %x {buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %y = rank.wait %p of %x {buffers = [#rank.buffer<shared, 64, 64>]} : (!rank.pending<tensor<16xf32>>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----
// Both microbatches are stashed in the first slot.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @one_slot_for_two(%x: tensor<2x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 128>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %s:2 = rank.microbatches [0:0, 0:1, 1:0] of(%x) carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "backward" takes [1] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %kept: tensor<16xf32>):
    // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64 stride 64 slots 2> does not hold it in microbatch 0}}
    %b = rank.launch @copy(%kept) {buffers = [#rank.buffer<private, 320, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %b : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 320, 64>, #rank.buffer<private, 128, 128>]} : (tensor<2x16xf32>) -> (tensor<16xf32>, tensor<2x16xf32>)
  return %s#0 : tensor<16xf32>
}

// -----
// The second microbatch takes the place in which the first one waits.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @waiting_slot(%x: tensor<2x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 128>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %s:2 = rank.microbatches [0:0, 0:1, 1:0] of(%x) carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
  ^bb0(%xi: tensor<16xf32>):
    %t = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    %a = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 128, 64 stride 64 slots 2>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  rank.segment "backward" takes [1] gives [0] {
  ^bb0(%xi: tensor<16xf32>, %kept: tensor<16xf32>):
    // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64 stride 64 slots 2> does not hold it in microbatch 0}}
    %b = rank.launch @copy(%kept) {buffers = [#rank.buffer<private, 320, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %b : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 320, 64>, #rank.buffer<private, 128, 128>]} : (tensor<2x16xf32>) -> (tensor<16xf32>, tensor<2x16xf32>)
  return %s#0 : tensor<16xf32>
}

// -----
// Behind the loop each slot holds what was given last.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @slots_behind(%x: tensor<2x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 128>}) -> (tensor<16xf32> {graph.role = #graph.output<"y">}, tensor<16xf32> {graph.role = #graph.output<"z">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %s = rank.microbatches [0:1] of(%x) carry() stashes [0] {
  rank.segment "forward" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 128, 64 stride 64 slots 2>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 128, 128>]} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %second = rank.view %s offset 16 {buffers = [#rank.buffer<private, 192, 64>]} : (tensor<2x16xf32>) -> tensor<16xf32>
  %b = rank.launch @copy(%second) {buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %first = rank.view %s offset 0 {buffers = [#rank.buffer<private, 128, 64>]} : (tensor<2x16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 128, 64> does not hold it in microbatch 0}}
  %c = rank.launch @copy(%first) {buffers = [#rank.buffer<private, 320, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %b, %c : tensor<16xf32>, tensor<16xf32>
}

// -----
// A stash is read slot by slot.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
rank.kernel @both(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  rank.return %x : tensor<2x16xf32>
}
func.func @whole_stash(%x: tensor<2x16xf32> {graph.role = #graph.input<"x">, rank.buffer = #rank.buffer<private, 0, 128>}) -> (tensor<2x16xf32> {graph.role = #graph.output<"y">})
    attributes {rank.arena = #rank.arena<shared = 0, private = 512>} {
  %s = rank.microbatches [0:0, 0:1] of(%x) carry() stashes [0] {
  rank.segment "forward" takes [] gives [0] {
  ^bb0(%xi: tensor<16xf32>):
    %a = rank.launch @copy(%xi) {buffers = [#rank.buffer<private, 128, 64 stride 64 slots 2>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  }
  } {buffers = [#rank.buffer<private, 128, 128>]} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  // expected-error @+1 {{operand 0 was overwritten}}
  %b = rank.launch @both(%s) {buffers = [#rank.buffer<private, 256, 128>]} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  return %b : tensor<2x16xf32>
}
