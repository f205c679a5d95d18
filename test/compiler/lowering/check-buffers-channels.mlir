// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// A value that is sent has a channel that nothing else uses, and is received from
// it.

// Two sends of one value, and a receive.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<shared, 128, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 192, private = 0>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-error @+1 {{has no channel}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = []} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 192, private = 64>} {
  // expected-error @+1 {{has the channel #rank.buffer<shared, 16, 128>, which is not aligned to 64 bytes}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 16, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 256, private = 64>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  // expected-error @+1 {{has the channel #rank.buffer<shared, 128, 128>; another send of the value with id 1 has #rank.buffer<shared, 0, 128>}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 128, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 192, private = 64>} {
  // expected-error @+1 {{buffer #rank.buffer<shared, 128, 128> ends at 256, behind the region's 192}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 128, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 192, private = 64>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  // expected-error @+1 {{buffer #rank.buffer<shared, 64, 128> overlaps the channel of the value with id 1 at #rank.buffer<shared, 0, 128>}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 {buffers = [], channel = #rank.buffer<shared, 64, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{buffer #rank.buffer<shared, 112, 16> overlaps the channel of the value with id 1 at #rank.buffer<shared, 0, 128>}}
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<shared, 112, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 0>} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-error @+1 {{buffer #rank.buffer<shared, 0, 16> overlaps the channel of the value with id 1}}
  %y = rank.copy %x {buffers = [#rank.buffer<shared, 0, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}

// -----
// What is sent must still be there.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 128>} {
  %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  %z = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 16> does not hold it in microbatch 0}}
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}

// -----
// What is received overwrites what lies there.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) -> tensor<4xf32> attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 0, private = 128>} {
  %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 16>]} : (tensor<4xf32>) -> tensor<4xf32>
  %z = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 {buffers = [#rank.buffer<private, 64, 16>], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  // expected-error @+1 {{operand 0 was overwritten: #rank.buffer<private, 64, 16> does not hold it in microbatch 0}}
  return %y : tensor<4xf32>
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{receives the value with id 1, which no function sends}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-note @+1 {{it is sent here}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 0, private = 64>} {
  // expected-error @+1 {{does not receive from the channel of the value with id 1 at #rank.buffer<shared, 0, 128>, but at #rank.buffer<shared, 64, 128>}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [#rank.buffer<private, 0, 16>], channel = #rank.buffer<shared, 64, 128>} : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 0 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-note @+1 {{it is sent here too}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32> {rank.buffer = #rank.buffer<private, 0, 16>}) attributes {rank.at = {pipe = 1 : i64}, rank.arena = #rank.arena<shared = 128, private = 64>} {
  // expected-error @+1 {{sends the value with id 1, and so does another function}}
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 {buffers = [], channel = #rank.buffer<shared, 0, 128>} : tensor<4xf32>
  return
}
