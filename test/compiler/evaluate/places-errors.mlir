// RUN: polyrank-opt %s -split-input-file --evaluate=ranks -verify-diagnostics
// Programs that wait for each other end with what each of them waits for.

#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{is where all wait for each other: @step_0 waits for the next value of id 2}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{@step_1 waits for the next value of id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
  return
}

// -----
// With a slot less than is sent before somebody receives.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<2x4xf32> {rank.number = 0 : i64}, %y: tensor<f32> {rank.number = 1 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 0:1] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error @+1 {{is where all wait for each other: @step_0 waits for one of the slots of id 1}}
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<2x4xf32>) -> ()
  %0 = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}
func.func @step_1(%y: tensor<f32> {rank.number = 1 : i64}) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{@step_1 waits for the other members of the collective with id 3}}
  %0 = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  %2 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// One that has ended never sends.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{is where all wait for each other: @step_1 waits for the next value of id 1}}
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%y: tensor<f32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}
func.func @step_1(%y: tensor<f32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{meets other collectives of its group's members}}
  %0 = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 4 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{receives 'tensor<2x2xf32>' where 'tensor<4xf32>' was sent}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<2x2xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{is run by device 0, which is not its end of the transfer}}
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step(%x: tensor<4xf32>) {
  // expected-error @+1 {{stands in a function that all ranks run}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// Two functions return the same result, and not the same.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @+1 {{returns another result 0 at device 1 than others: element 0 is}}
func.func @step_1(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
#all = #sharding.layout<#mesh, []>
// expected-error @+1 {{result 0: device 1 holds another replica than its peers}}
func.func @step_0(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64, rank.global = tensor<f32, #all>}) attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @step_1(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64, rank.global = tensor<f32, #all>}) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}

// -----
// A result lives where nobody returns it.
#mesh = #sharding.mesh<["pipe"=2]>
#at1 = #sharding.layout<#mesh, [], at {"pipe" = 1}>
// expected-error @+1 {{result 0 of @step_0 lives at device 1, whose function does not return it}}
func.func @step_0(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64, rank.global = tensor<f32, #at1>}) attributes {rank.at = {pipe = 0 : i64}} {
  return %x : tensor<f32>
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
#part = #sharding.layout<#mesh, [], partial = sum {"pipe"}>
// expected-error @+1 {{result 0 of @step_0 is partial over "pipe", and some functions do not return it}}
func.func @step_0(%x: tensor<f32> {rank.number = 0 : i64}) -> (tensor<f32> {rank.number = 0 : i64, rank.global = tensor<f32, #part>}) attributes {rank.at = {pipe = 0 : i64}} {
  return %x : tensor<f32>
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
#at1 = #sharding.layout<#mesh, [], at {"pipe" = 1}>
// expected-error @+1 {{argument 0 of @step_0 does not live at device 0, which runs it}}
func.func @step_0(%x: tensor<f32> {rank.number = 0 : i64, rank.global = tensor<f32, #at1>}) attributes {rank.at = {pipe = 0 : i64}} {
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{argument 0 of @step_0 has no rank.number}}
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{no function has argument 0, but a later one}}
func.func @step_0(%x: tensor<4xf32> {rank.number = 1 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
// expected-error @+1 {{argument 0 of @step_1 is 'tensor<5xf32>' globally, and of @step_0, which has it too, 'tensor<4xf32>'}}
func.func @step_1(%x: tensor<5xf32> {rank.number = 0 : i64}) attributes {rank.at = {pipe = 1 : i64}} {
  return
}
