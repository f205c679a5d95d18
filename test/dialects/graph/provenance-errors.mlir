// RUN: polyrank-opt %s --split-input-file --verify-diagnostics
// Each rule of dialects/graph/Provenance.cpp, by a program that breaks it alone.

func.func @other(%x: tensor<4xf32>) {
  // expected-error @+1 {{the graph dialect has no attribute 'graph.scop'}}
  %y = graph.exp %x {graph.scop = "fc"} : tensor<4xf32>
  return
}

// -----

func.func @kind(%x: tensor<4xf32>) {
  // expected-error @+1 {{graph.origin is a string, not 1 : i64}}
  %y = graph.exp %x {graph.origin = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @phase(%x: tensor<4xf32>) {
  // expected-error @+1 {{graph.phase is a #graph.phase, not "backward"}}
  %y = graph.exp %x {graph.phase = "backward"} : tensor<4xf32>
  return
}

// -----

func.func @model(%x: tensor<4xf32>) {
  // expected-error @+1 {{graph.model belongs to the module}}
  %y = graph.exp %x {graph.model = "mlp.onnx"} : tensor<4xf32>
  return
}
