// RUN: polyrank-opt %s --start-collectives=report=1 -o %t 2>&1 | FileCheck %s
// The example of docs/cost.md.

#mesh = #sharding.mesh<["data"=8]>

module attributes {rank.machine = #rank.machine<links = [<"data", latency = 500.0, bandwidth = 0.5>], bandwidth = 0.16>} {
rank.kernel @copy(%x: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<1048576xf32>
}

// CHECK: a step takes 70.11 ms by the model, at least 52.43
func.func @reduced(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %a = rank.launch @copy(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  %y = rank.all_reduce sum %a over <#mesh, {"data"}> id 0 : (tensor<1048576xf32>) -> tensor<1048576xf32>
  return %y : tensor<1048576xf32>
}

// CHECK: a step takes 61.27 ms by the model, at least 52.43
func.func @scattered(%x: tensor<1048576xf32>) -> tensor<131072xf32> {
  %a = rank.launch @copy(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  %y = rank.reduce_scatter sum %a dims [0] over <#mesh, {"data"}> id 0 : (tensor<1048576xf32>) -> tensor<131072xf32>
  return %y : tensor<131072xf32>
}
}
