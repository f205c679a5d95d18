// RUN: polyrank-opt %s --split-input-file --verify-diagnostics
// Each rule of dialects/sharding/Constraint.cpp, by a program that breaks it alone.

#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{[constraint 1] a constraint on 2 dims says of 1 whether they are open}}
func.func @flags(%x: tensor<4x6xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}, {}]> open [true]>}) { return }

// -----

#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{expected true or false, found maybe}}
func.func @flag(%x: tensor<4xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}]> open [maybe]>}) { return }

// -----

#mesh = #sharding.mesh<["data"=2]>
// expected-error @+1 {{[constraint 2] the constraint #sharding.layout<#sharding.mesh<["data"=2]>, [{"data"}]> is on 'tensor<4x6xf32>'}}
func.func @rank(%x: tensor<4x6xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}]>>}) { return }

// -----

#mesh = #sharding.mesh<["data"=2]>
func.func @result(%x: tensor<4xf32>) {
  // expected-error @+1 {{[constraint 2] the constraint is on result 1 of 1}}
  %y = graph.exp %x {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"data"}]> result 1>} : tensor<4xf32>
  return
}

// -----

func.func @kind(%x: tensor<4xf32>) {
  // expected-error @+1 {{[constraint 3] sharding.constraint is a #sharding.constraint, not "data"}}
  %y = graph.exp %x {sharding.constraint = "data"} : tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{[objective 2] sharding.objective is a #sharding.objective, not 4 : i64}}
func.func @objective() attributes {sharding.objective = 4 : i64} { return }

// -----

// expected-error @+1 {{[mesh 3] sharding.mesh is a #sharding.mesh, not 4 : i64}}
module attributes {sharding.mesh = 4 : i64} {}

// -----

// expected-error @+1 {{[cost 1] a cost has the number -1}}
func.func private @cost() attributes {cost = #sharding.cost<violations = [0, -1, 3], bytes = 0, flops = 0>}

// -----

// expected-error @+1 {{[objective 1] the layouts cost #sharding.cost<violations = [1], bytes = 0, flops = 9>, less than the bound #sharding.cost<violations = [1, 1], bytes = 0, flops = 0>}}
func.func private @bound() attributes {objective = #sharding.objective<value = <violations = [1], bytes = 0, flops = 9>, bound = <violations = [1, 1], bytes = 0, flops = 0>>}

// -----

func.func @other(%x: tensor<4xf32>) {
  // expected-error @+1 {{[constraint 3] the sharding dialect has no attribute 'sharding.constrain'}}
  %y = graph.exp %x {sharding.constrain = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{[constraint 3] the sharding dialect has no argument attribute 'sharding.layout'}}
func.func @argument(%x: tensor<4xf32> {sharding.layout = 1 : i64}) { return }
