// RUN: polyrank-opt %s --start-collectives | FileCheck %s
// RUN: polyrank-opt %s --order-commands | FileCheck %s --check-prefix=ORDER
// Sends and receives stay in their order, and with them what ranks of several
// functions reduce together. What the ranks of one function do among themselves
// may pass them.

#mesh = #sharding.mesh<["data"=2, "pipe"=2]>

module attributes {rank.machine = #rank.machine<links = [<"data", latency = 10.0, bandwidth = 1.0>, <"pipe", latency = 10.0, bandwidth = 1.0>]>} {
rank.kernel @move(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<4096xf32>
}
rank.kernel @add(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> attributes {in_place = [array<i64: 0>]} {
  %0 = graph.add %x, %y : tensor<4096xf32>
  rank.return %0 : tensor<4096xf32>
}

// CHECK-LABEL: func.func @step_0
// CHECK: %[[A:.*]] = rank.launch @move
// CHECK-NEXT: %[[P:.*]] = rank.all_reduce {{.*}} id 0 {{.*}} -> !rank.pending<tensor<4096xf32>>
// CHECK-NEXT: rank.send {{.*}} id 1
// CHECK-NEXT: %[[R:.*]] = rank.recv {{.*}} id 2
// CHECK-NEXT: %[[B:.*]] = rank.launch @move(%[[R]])
// CHECK-NEXT: %[[Y:.*]] = rank.wait %[[P]]
// CHECK-NEXT: rank.launch @add(%[[Y]], %[[B]])
func.func @step_0(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {rank.at = {pipe = 0 : i64}} {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4096xf32>
  %r = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4096xf32>
  %b = rank.launch @move(%r) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @add(%y, %b) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %z : tensor<4096xf32>
}

// CHECK-LABEL: func.func @step_1
// CHECK: rank.send {{.*}} id 2
// CHECK-NEXT: rank.launch @move
// CHECK-NEXT: rank.all_reduce {{.*}} id 3 : (tensor<4096xf32>) -> tensor<4096xf32>
func.func @step_1(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {rank.at = {pipe = 1 : i64}} {
  %a = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4096xf32>
  rank.send %r over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4096xf32>
  %b = rank.launch @move(%r) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"pipe"}> id 3 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @add(%y, %b) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %z : tensor<4096xf32>
}

// In front of a reduction that the rank would wait for stands work that can be
// done meanwhile, but not what stands in front of a receive: that fills the time
// until something is there to receive.
// ORDER-LABEL: func.func @put_off_0
// ORDER: rank.launch @move(%arg0)
// ORDER-NEXT: rank.recv
// ORDER-NEXT: %[[A:.*]] = rank.launch @move
// ORDER-NEXT: %[[Y:.*]] = rank.all_reduce sum %[[A]]
// ORDER-NEXT: %[[B:.*]] = rank.launch @move
// ORDER-NEXT: %[[Z:.*]] = rank.launch @move(%[[Y]])
func.func @put_off_0(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
  %c = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4096xf32>
  %b = rank.launch @move(%r) : (tensor<4096xf32>) -> tensor<4096xf32>
  %a = rank.launch @move(%r) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @move(%y) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %z, %b, %c : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
}

// Nothing comes in front of a send from behind it. (The first values make room:
// no order takes more memory than the first.)
// ORDER-LABEL: func.func @bring_forward
// ORDER: rank.recv
// ORDER-NEXT: %[[A:.*]] = rank.launch @move
// ORDER-NEXT: %[[Y:.*]] = rank.all_reduce sum %[[A]]
// ORDER-NEXT: rank.launch @move(%arg0)
// ORDER-NEXT: %[[Z:.*]] = rank.launch @add(%[[Y]], 
// ORDER-NEXT: rank.send %[[Z]]
// ORDER-NEXT: rank.launch @move(%arg0)
func.func @bring_forward(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
  %0 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = rank.launch @add(%0, %1) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %5 = rank.launch @add(%2, %3) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %6 = rank.launch @add(%4, %5) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %r = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4096xf32>
  %a = rank.launch @move(%r) : (tensor<4096xf32>) -> tensor<4096xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %z = rank.launch @add(%y, %6) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %b = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  rank.send %z over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4096xf32>
  %c = rank.launch @move(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %b, %c, %6 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
}
}
