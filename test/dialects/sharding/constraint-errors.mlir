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

func.func @other(%x: tensor<4xf32>) {
  // expected-error @+1 {{[constraint 3] the sharding dialect has no attribute 'sharding.constrain'}}
  %y = graph.exp %x {sharding.constrain = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{[constraint 3] the sharding dialect has no argument attribute 'sharding.layout'}}
func.func @argument(%x: tensor<4xf32> {sharding.layout = 1 : i64}) { return }
