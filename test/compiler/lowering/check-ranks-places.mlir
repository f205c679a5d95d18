// RUN: polyrank-opt %s --check-ranks -split-input-file -verify-diagnostics
// Functions of different places, checked together.

// One forward, one backward in turn: two slots are enough for stage 0 to send
// its second activation before it receives the first gradient.
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @step_0(%x: tensor<3x4xf32>, %y: tensor<f32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 0:1, 1:0, 0:2, 1:1, 1:2] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  rank.segment "backward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}
func.func @step_1(%x: tensor<3x4xf32>, %y: tensor<f32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1, 0:2] of(%x) carry() {
  rank.segment "both" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    %1 = rank.all_reduce sum %0 over <#mesh, {"data"}> id 4 : (tensor<4xf32>) -> tensor<4xf32>
    rank.send %1 over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
// The last microbatch of one of them stands behind its loop.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<2x4xf32>, %y: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<2x4xf32>) -> ()
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<2x4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<2x4xf32>) -> ()
  return
}

// -----
// All forwards, then all backwards, of three stages: each value has as many slots
// as there are microbatches. They are received in another order than they are
// sent, since their channels are different ones.
#mesh = #sharding.mesh<["pipe"=3]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 2 id 3 slots 1 : tensor<4xf32>
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 4 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  rank.send %0 over <#mesh, {"pipe"}> from 1 to 2 id 5 slots 1 : tensor<4xf32>
  %2 = rank.recv over <#mesh, {"pipe"}> from 2 to 1 id 6 slots 1 : tensor<4xf32>
  rank.send %2 over <#mesh, {"pipe"}> from 1 to 0 id 4 slots 1 : tensor<4xf32>
  return
}
func.func @step_2() attributes {rank.at = {pipe = 2 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 2 id 5 slots 1 : tensor<4xf32>
  %1 = rank.recv over <#mesh, {"pipe"}> from 0 to 2 id 3 slots 1 : tensor<4xf32>
  rank.send %0 over <#mesh, {"pipe"}> from 2 to 1 id 6 slots 1 : tensor<4xf32>
  return
}

// -----
// Each receives before it sends.
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error-re @+1 {{and what follows it do not end on all ranks: ranks wait for each other without end: rank 0 (data=0,pipe=0) waits in {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 2, microbatch 0, bytes 16, group 1 0)}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note-re @+1 {{rank 1 (data=0,pipe=1) waits in {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 1, microbatch 0, bytes 16, group 0 1)}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
  return
}

// -----
// One slot too few: stage 0 sends its second value when the first has been
// received, and stage 1 first receives what stage 0 sends after that.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 0:1, 1:0, 1:1] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error-re @+1 {{and what follows it do not end on all ranks: ranks wait for each other without end: rank 0 (pipe=0) waits at command 1 for {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 1, microbatch 0}}
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
    rank.yield
  }
  rank.segment "other" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}
func.func @step_1(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 1:0, 0:1, 1:1] of(%x) carry() {
  rank.segment "other" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-note-re @+1 {{rank 1 (pipe=1) waits in {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 2, microbatch 0}}
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
    rank.yield
  }
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}

// -----
// The first microbatch is sent first, and the second one expected.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 0:1] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error-re @+1 {{and what follows it do not end on all ranks: members of a group do not agree on what they do in it next: rank 0 (pipe=0) runs {{.*}} (command 0, transfer of tensor<4xf32> with 2 slots, id 1, microbatch 0, bytes 16, group 0 1)}}
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}
func.func @step_1(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:1, 0:0] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-note-re @+1 {{rank 1 (pipe=1) runs {{.*}} (command 0, transfer of tensor<4xf32> with 2 slots, id 1, microbatch 1, bytes 16, group 0 1)}}
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}

// -----
// Nobody receives.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error-re @+1 {{and what follows it do not end on all ranks: a rank waits without end for one that never comes: rank 0 (pipe=0) runs {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 1}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{rank 1 (pipe=1) does 0 things in this group, and nothing after that}}
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32>
  return
}

// -----
// Another id.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{and what follows it do not end on all ranks: a rank waits without end for one that never comes}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{rank 1 (pipe=1) does 0 things in this group}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  return
}

// -----
// Another size.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error-re @+1 {{and what follows it do not end on all ranks: members of a group do not agree on what they do in it next: rank 0 (pipe=0) runs {{.*}} (command 0, transfer of tensor<4xf32> with 1 slot, id 1}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note-re @+1 {{rank 1 (pipe=1) runs {{.*}} (command 0, transfer of tensor<5xf32> with 1 slot, id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<5xf32>
  return
}

// -----
// The same size, and other elements.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{and what follows it do not end on all ranks: members of a group do not agree}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{transfer of tensor<4xi32> with 1 slot, id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xi32>
  return
}

// -----
// Another number of slots.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{and what follows it do not end on all ranks: members of a group do not agree}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{transfer of tensor<4xf32> with 2 slots, id 1}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  return
}

// -----
// Another peer: what is sent to stage 2 is received from stage 0 by stage 1.
#mesh = #sharding.mesh<["pipe"=3]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error-re @+1 {{and what follows it do not end on all ranks: a rank waits without end for one that never comes: rank 0 (pipe=0) runs {{.*}} group 0 2)}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 2 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
// expected-note @+1 {{rank 2 (pipe=2) does 0 things in this group}}
func.func @step_2() attributes {rank.at = {pipe = 2 : i64}} {
  return
}

// -----
// What all reduce stands in front of what one of them waits for.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>, %y: tensor<f32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error-re @+1 {{and what follows it do not end on all ranks: ranks wait for each other without end: rank 0 (pipe=0) waits in {{.*}} (command 0, all_reduce sum, id 3}}
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%y: tensor<f32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note-re @+1 {{rank 1 (pipe=1) waits in {{.*}} (command 0, transfer of tensor<4xf32>}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
// What all reduce is not the same value.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%y: tensor<f32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{and what follows it do not end on all ranks: members of a group do not agree}}
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 3 : (tensor<f32>) -> tensor<f32>
  return
}
func.func @step_1(%y: tensor<f32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-note @+1 {{rank 1 (pipe=1) runs}}
  %n = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 4 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
// The ranks of stage 1 send what stage 0 should.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0() attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // expected-error @+1 {{sends from index 0 over {"pipe"}, and the ranks of @step_1 have index 1}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{receives at index 1 over {"pipe"}, and the ranks of @step_0 have index 0}}
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// Both halves of the pipe have the index 0 over its minor half.
#mesh = #sharding.mesh<["pipe"=4]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe":(2)2}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe":(2)2}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_2(%x: tensor<4xf32>) attributes {rank.at = {pipe = 2 : i64}} {
  rank.send %x over <#mesh, {"pipe":(2)2}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_3(%x: tensor<4xf32>) attributes {rank.at = {pipe = 3 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe":(2)2}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// Along an axis on which the function does not depend.
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // expected-error @+1 {{goes along "data", and ranks with any coordinate of it run @step_0}}
  rank.send %x over <#mesh, {"data"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// A value is sent twice for a microbatch, in two segments.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.microbatches [0:0, 1:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  rank.segment "two" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error @+1 {{moves the value with id 1 a second time for microbatch 0}}
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}
func.func @step_1(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}

// -----
// And in one.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  // expected-error @+1 {{moves the value with id 1 a second time in one segment}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  return
}

// -----
// What moves before the microbatches is another value.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<3x4xf32>, %y: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %y over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
  rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    // expected-error @+1 {{moves the value with id 1 a second time in one segment}}
    rank.send %xi over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}
func.func @step_1(%x: tensor<3x4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  rank.microbatches [0:0, 0:1] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.yield
  }
  } : (tensor<3x4xf32>) -> ()
  return
}

// -----
// A collective of one function, twice.
#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{moves the value with id 0 a second time in one segment}}
  %1 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 0 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
#other = #sharding.mesh<["pipe"=2, "data"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  // expected-error @+1 {{communicates over #sharding.mesh<["pipe"=2, "data"=2]>, other commands over #sharding.mesh<["pipe"=2]>}}
  rank.send %x over <#other, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2, "data"=2]>
#other = #sharding.mesh<["data"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  %0 = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{communicates over #sharding.mesh<["data"=2]>, other commands over #sharding.mesh<["pipe"=2, "data"=2]>}}
  %1 = rank.all_reduce sum %x over <#other, {"data"}> id 2 : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2, "data"=2]>
func.func @step_0(%x: tensor<1x4xf32>, %y: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  %p = rank.all_reduce sum %y over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
  rank.microbatches [0:0] of(%x) carry() {
  rank.segment "one" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    rank.yield
  }
  } : (tensor<1x4xf32>) -> ()
  // expected-error @+1 {{stands in another segment than what it waits for: nothing is in flight where microbatches begin or end}}
  %0 = rank.wait %p of %y : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  return
}

// -----
// What is started by several functions and waited for later.
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>, %y: tensor<f32>) attributes {rank.at = {pipe = 0 : i64}} {
  %p = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 1 : (tensor<f32>) -> !rank.pending<tensor<f32>>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  %0 = rank.wait %p of %y : (!rank.pending<tensor<f32>>, tensor<f32>) -> tensor<f32>
  return
}
func.func @step_1(%y: tensor<f32>) attributes {rank.at = {pipe = 1 : i64}} {
  %x = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 2 slots 1 : tensor<4xf32>
  %0 = rank.all_reduce sum %y over <#mesh, {"pipe"}> id 1 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step(%x: tensor<4xf32>) {
  // expected-error @+1 {{stands in a function that all ranks run; the two ends of a transfer are in functions of their own, with a place (rank.at)}}
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{is one of 1 functions for 2 coordinates of #sharding.mesh<["pipe"=2]>: some ranks have nothing to run}}
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
// expected-error @+1 {{has the place {pipe = 0 : i64}, as @step_0 has; a rank runs one function}}
func.func @step_1() attributes {rank.at = {pipe = 0 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
// expected-error @+1 {{has the place {pipe = 2 : i64}, which is no coordinate along the axes of the place {pipe = 0 : i64} in #sharding.mesh<["pipe"=2]>}}
func.func @step_2() attributes {rank.at = {pipe = 2 : i64}} {
  return
}

// -----
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{has a place on the axis "stage", which #sharding.mesh<["pipe"=2]> has not}}
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {stage = 0 : i64}} {
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}

// -----
// expected-error @+1 {{has the place {pipe = 0 : i64} and nothing that says of which mesh}}
func.func @step_0() attributes {rank.at = {pipe = 0 : i64}} {
  return
}

// -----
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  rank.send %x over <#sharding.mesh<["pipe"=2]>, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
// expected-error @+1 {{@step_1 communicates over #sharding.mesh<["pipe"=3]>, another function over #sharding.mesh<["pipe"=2]>}}
func.func @step_1() attributes {rank.at = {pipe = 1 : i64}} {
  %0 = rank.recv over <#sharding.mesh<["pipe"=3]>, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32>
  return
}
