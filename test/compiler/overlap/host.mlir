// RUN: polyrank-opt %s --start-collectives=report=1 -o %t 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: sed 's/host = 1.0e11/launch = 1.0e10/' %s | polyrank-opt --start-collectives=report=1 -o %t 2>&1 | FileCheck %s --check-prefix=LAUNCH
// Two kernels of 52.43 ms, which the host issues in 100 ms each, or that are launched in 10 ms each. The ring of eight neighbours waits
// 14 times half a millisecond, and sends its bytes in 14.68 ms.

#mesh = #sharding.mesh<["data"=8]>

module attributes {rank.machine = #rank.machine<links = [<"data", latency = 500.0, bandwidth = 0.5>], bandwidth = 0.16>,
    rank.reach = {host = 1.0e11, devices = 8, node = {algorithms = array<i64: 1>, latency = 5.0e8, per_byte = 2000.0, reached = array<f64>}}} {
rank.kernel @copy(%x: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {in_place = [array<i64>]} {
  rank.return %x : tensor<1048576xf32>
}

// HOST: a step takes 221.68 ms by the model, at least 200.00
// LAUNCH: a step takes 146.54 ms by the model, at least 124.86
func.func @reduced(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %a = rank.launch @copy(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  %b = rank.launch @copy(%a) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  %y = rank.all_reduce sum %b over <#mesh, {"data"}> id 0 : (tensor<1048576xf32>) -> tensor<1048576xf32>
  return %y : tensor<1048576xf32>
}
}
