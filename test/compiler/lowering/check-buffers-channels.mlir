// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// A value that is sent is still there, is received from one function, and fits into
// the memory of a rank.

// Two sends of one value, and a receive.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<shared, 128, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 192, private = 0>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<4xf32>
  return
}

// -----
// What is sent must still be there.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 128>} {
  %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  %z = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 16> does not hold it in microbatch 0}}
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}

// -----
// What is received overwrites what lies there.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) -> tensor<4xf32> attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 128>} {
  %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  %z = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 {buffers = [#rank.buffer<private, 64, 16>]} : tensor<4xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 16> does not hold it in microbatch 0}}
  return %y : tensor<4xf32>
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{receives the value with id 1, which no function sends}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-note @+1 {{it is sent here too}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-error @+1 {{sends the value with id 1, and so does another function}}
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}

// -----
// Both ends mean the same channel.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-note @+1 {{what is sent is 'tensor<4xf32>' in 2 slots}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 {buffers = []} : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{receives 'tensor<4xf32>' from 1 slots under id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-note @+1 {{what is sent is 'tensor<4xf32>' in 1 slots}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{receives 'tensor<2x2xf32>' from 1 slots under id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>]} : tensor<2x2xf32>
  return
}

// -----
// What is on its way counts: a slot of 64 bytes for each, once for each value.
#mesh = #sharding.mesh<["pipe"=2]>
module attributes {rank.machine = #rank.machine<memory = 192>} {
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 {buffers = []} : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 {buffers = []} : tensor<4xf32>
  return
}
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
module attributes {rank.machine = #rank.machine<memory = 191>} {
// expected-error @+1 {{takes an arena of 64 bytes and 128 for what it sends, and a rank of the machine has 191; split the program}}
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 {buffers = []} : tensor<4xf32>
  return
}
}
