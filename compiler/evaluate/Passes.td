// Passes that evaluate or describe a program.
//
// A pass without `dependentDialects` creates no ops, types or attributes.

#ifndef POLYRANK_EVALUATE_PASSES_TD
#define POLYRANK_EVALUATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrintShardingRulesPass : Pass<"print-sharding-rules"> {
  let summary = "Write each graph op's sharding rule on it, as text";
  let description = [{
    Sets `graph.sharding_rule`, for instance
    `"([i, j], [j, k])->([i, k]) {i=4, k=8, j=16} reduction={j} sum=(alone, alone)"`,
    so that tests can compare rules as text.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def ShuffleOpsPass : Pass<"shuffle-ops"> {
  let summary = "Put ops into another order that respects their operands";
  let description = [{
    Draws a random topological order of every block from `seed`. It tests that
    the results of other passes depend on the order of ops only through their
    dependencies.
  }];
  let options = [Option<"seed", "seed", "uint64_t", "0", "What the order is drawn from">];
}

#endif
