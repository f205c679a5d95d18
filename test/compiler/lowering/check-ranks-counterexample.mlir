// RUN: not polyrank-opt %s --check-ranks --mlir-print-op-on-diagnostic=false 2>&1 | FileCheck %s
// A counterexample names the ranks, the ops, and where these come from in the
// user's model.

#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
func.func @step_0(%x: tensor<4xf32>) attributes {rank.at = {pipe = 0 : i64}} {
  // CHECK: error: {{.*}}'rank.recv' op and what follows it do not end on all ranks: ranks wait for each other without end:
  // CHECK-SAME: rank 0 (data=0,pipe=0) waits in model.layers.1/gradient (command 0, transfer of tensor<4xf32> with 1 slot, id 2, microbatch 0, bytes 16, group 1 0)
  %0 = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32> loc("model.layers.1/gradient")
  rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32> loc("model.layers.0")
  return
}
func.func @step_1(%x: tensor<4xf32>) attributes {rank.at = {pipe = 1 : i64}} {
  // CHECK: note: {{.*}}rank 1 (data=0,pipe=1) waits in model.layers.0 (command 0, transfer of tensor<4xf32> with 1 slot, id 1, microbatch 0, bytes 16, group 0 1)
  %0 = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 1 : tensor<4xf32> loc("model.layers.0")
  rank.send %x over <#mesh, {"pipe"}> from 1 to 0 id 2 slots 1 : tensor<4xf32> loc("model.layers.1/gradient")
  return
}
