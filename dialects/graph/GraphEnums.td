// Enumerations of the graph dialect.

#ifndef POLYRANK_GRAPH_ENUMS_TD
#define POLYRANK_GRAPH_ENUMS_TD

include "mlir/IR/EnumAttr.td"

def Graph_Comparison : I32EnumAttr<"Comparison", "how two numbers compare", [
  I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">,
  I32EnumAttrCase<"LT", 2, "lt">, I32EnumAttrCase<"LE", 3, "le">,
  I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]> {
  let cppNamespace = "::polyrank::graph";
}

def Graph_GeluForm : I32EnumAttr<"GeluForm", "how gelu is computed", [
  I32EnumAttrCase<"Erf", 0, "erf">, I32EnumAttrCase<"Tanh", 1, "tanh">]> {
  let cppNamespace = "::polyrank::graph";
}

def Graph_Masked : I32EnumAttr<"Masked", "what the keys count that a query does not see", [
  I32EnumAttrCase<"Zero", 0, "zero">, I32EnumAttrCase<"Add", 1, "add">,
  I32EnumAttrCase<"Replace", 2, "replace">]> {
  let cppNamespace = "::polyrank::graph";
}

def Graph_MeanKind : I32EnumAttr<"MeanKind", "what a mean is of several numbers", [
  I32EnumAttrCase<"Arithmetic", 0, "arithmetic">, I32EnumAttrCase<"Geometric", 1, "geometric">]> {
  let cppNamespace = "::polyrank::graph";
}

def Graph_RandomCounter : I32EnumAttr<"RandomCounter", "what random numbers are counted by", [
  I32EnumAttrCase<"Seed", 0, "seed">, I32EnumAttrCase<"Step", 1, "step">,
  I32EnumAttrCase<"Microbatch", 2, "microbatch">]> {
  let cppNamespace = "::polyrank::graph";
}

// In the order in which they run.
def Graph_Phase : I32EnumAttr<"Phase", "a part of a training step", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"Update", 2, "update">]> {
  let cppNamespace = "::polyrank::graph";
  let genSpecializedAttr = 0;
}

#endif
