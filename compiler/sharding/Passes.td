// The sharding passes: from constraints to collectives.

#ifndef POLYRANK_SHARDING_PASSES_TD
#define POLYRANK_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanReshards : Pass<"plan-reshards", "::mlir::func::FuncOp"> {
  let summary = "Lower each shard.reshard to the cheapest sequence of collectives";
  let description = [{
    The sequence is an exact shortest path over layouts under the alpha-beta
    model (compiler/cost). Each op of it keeps the reshard's `why`.
  }];
  let options = [
    ListOption<"links", "link", "std::string",
      "AXIS=MICROSECONDS:GB_PER_S, latency and bandwidth along a mesh axis; 10:10 where nothing is said">
  ];
}

#endif
