// Passes that evaluate or describe a program.
//
// A pass without `dependentDialects` makes no ops, types or attributes.

#ifndef POLYRANK_EVALUATE_PASSES_TD
#define POLYRANK_EVALUATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrintShardingRulesPass : Pass<"print-sharding-rules"> {
  let summary = "Write each graph op's sharding rule on it, as text";
  let description = [{
    Sets `graph.sharding_rule`, for instance
    `"([i, j], [j, k])->([i, k]) {i=4, k=8, j=16} reduction={j} sum=(alone, alone)"`,
    so that a rule is tested by reading it.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def ShuffleOpsPass : Pass<"shuffle-ops"> {
  let summary = "Put ops into another order that respects their operands";
  let description = [{
    Draws a topological order from `seed` in every block. No result of a pass
    may depend on the order of ops beyond their dependencies.
  }];
  let options = [Option<"seed", "seed", "uint64_t", "0", "What the order is drawn from">];
}

#endif
