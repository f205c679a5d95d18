// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// Programs whose buffers are wrong are rejected.

rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @overwritten(%x: tensor<16xf32> {graph.input = "x", rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 0 : i64, private = 192 : i64}} {
  %a = rank.launch @copy(%x) {rank.buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  %b = rank.launch @copy(%x) {rank.buffers = [#rank.buffer<private, 96, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 64> does not hold it in microbatch 0}}
  %c = rank.launch @copy(%a) {rank.buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @in_place(%x: tensor<16xf32> {graph.input = "x", rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 0 : i64, private = 64 : i64}} {
  // expected-error @+1 {{result 0 at #rank.buffer<private, 0, 64> overwrites operand 0 at #rank.buffer<private, 0, 64>, which it still reads}}
  %a = rank.launch @copy(%x) {rank.buffers = [#rank.buffer<private, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
func.func @outside(%x: tensor<16xf32> {graph.input = "x", rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 0 : i64, private = 100 : i64}} {
  // expected-error @+1 {{buffer #rank.buffer<private, 64, 64> ends at 128, behind the region's 100}}
  %a = rank.copy %x {rank.buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
#mesh = #shard.mesh<["data"=2]>
func.func @unreachable(%x: tensor<16xf32> {graph.input = "x", rank.buffer = #rank.buffer<private, 0, 64>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 64 : i64, private = 64 : i64}} {
  // expected-error @+1 {{moves bytes that peers cannot reach}}
  %a = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 {rank.buffers = [#rank.buffer<shared, 0, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
// The next step finds its parameter elsewhere.
func.func @moved(%x: tensor<16xf32> {graph.symbol = @x, rank.buffer = #rank.buffer<private, 0, 64>}) -> tensor<16xf32>
    attributes {rank.arena = {shared = 0 : i64, private = 128 : i64}} {
  %a = rank.copy %x {rank.buffers = [#rank.buffer<private, 64, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{result 0 lies at #rank.buffer<private, 64, 64>, the argument that it replaces at #rank.buffer<private, 0, 64>}}
  return %a : tensor<16xf32>
}

// -----
// The second microbatch overwrites the third one's sum.
rank.kernel @copy(%x: tensor<16xf32>) -> tensor<16xf32> {
  rank.return %x : tensor<16xf32>
}
func.func @lost_sum(%x: tensor<4x16xf32> {graph.input = "x", rank.buffer = #rank.buffer<private, 0, 256>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 0 : i64, private = 512 : i64}} {
  %s = rank.microbatches count = 4 of(%x) carry() first {
  ^bb0(%i: tensor<i64>, %xi: tensor<16xf32>):
    %a = rank.launch @copy(%xi) {rank.buffers = [#rank.buffer<private, 256, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %a : tensor<16xf32>
  } rest {
  ^bb0(%i: tensor<i64>, %xi: tensor<16xf32>, %sum: tensor<16xf32>):
    // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 256, 64> does not hold it in microbatch 2}}
    %b = rank.launch @copy(%sum) {rank.buffers = [#rank.buffer<private, 320, 64>]} : (tensor<16xf32>) -> tensor<16xf32>
    rank.yield %b : tensor<16xf32>
  } {rank.buffers = [#rank.buffer<private, 256, 64>],
     rank.first_buffers = [#rank.buffer<private, 448, 8 stride 8>, #rank.buffer<private, 0, 64 stride 64>],
     rank.rest_buffers = [#rank.buffer<private, 448, 8 stride 8>, #rank.buffer<private, 0, 64 stride 64>, #rank.buffer<private, 256, 64>]}
    : (tensor<4x16xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----
// The first device's block is there, the second one's is not.
#mesh = #shard.mesh<["data"=2]>
func.func @another_block(%x: tensor<32xf32> {graph.input = "x", rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<16xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 128 : i64, private = 0 : i64}} {
  // expected-error @+1 {{result 0 at #rank.buffer<shared, 0, 64> overwrites operand 0 at #rank.buffer<shared, 0, 128>, which it still reads}}
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {rank.buffers = [#rank.buffer<shared, 0, 64>]} : (tensor<32xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}

// -----
#mesh = #shard.mesh<["data"=4]>
func.func @block_outside(%x: tensor<16xf32> {graph.input = "x", rank.buffer = #rank.buffer<shared, 0, 64>}) -> (tensor<4xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 128 : i64, private = 0 : i64}} {
  // expected-error @+1 {{buffer #rank.buffer<shared, 64, 16 step 32 over <#shard.mesh<["data"=4]>, {"data"}>> ends at 176, behind the region's 128}}
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {rank.buffers = [#rank.buffer<shared, 64, 16 step 32 over <#mesh, {"data"}>>]} : (tensor<16xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----
// What was scattered in place is no longer there as a whole.
#mesh = #shard.mesh<["data"=2]>
rank.kernel @copy(%x: tensor<32xf32>) -> tensor<32xf32> {
  rank.return %x : tensor<32xf32>
}
func.func @whole_after_block(%x: tensor<32xf32> {graph.input = "x", rank.buffer = #rank.buffer<shared, 0, 128>}) -> (tensor<32xf32> {graph.output = "y"})
    attributes {rank.arena = {shared = 128 : i64, private = 128 : i64}} {
  %a = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 0 {rank.buffers = [#rank.buffer<shared, 0, 64 step 64 over <#mesh, {"data"}>>]} : (tensor<32xf32>) -> tensor<16xf32>
  // expected-error @+1 {{operand 0 was overwritten}}
  %b = rank.launch @copy(%x) {rank.buffers = [#rank.buffer<private, 0, 128>]} : (tensor<32xf32>) -> tensor<32xf32>
  return %b : tensor<32xf32>
}
