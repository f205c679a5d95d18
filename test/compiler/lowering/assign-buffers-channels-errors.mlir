// RUN: polyrank-opt %s --assign-buffers -split-input-file -verify-diagnostics

#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0() attributes {rank.at = {pipe = 0 : i64}} {
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{receives the value with id 1, which no function sends}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-note @+1 {{what is sent is 'tensor<4xf32>' in 2 slots}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{receives 'tensor<4xf32>' from 1 slots under id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-note @+1 {{what is sent is 'tensor<4xf32>' in 1 slots}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{receives 'tensor<2x2xf32>' from 1 slots under id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<2x2xf32>
  return
}
