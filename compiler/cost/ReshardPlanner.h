// The cheapest path from one layout to another: an exact shortest path.
//
// A state is, per dim, the stack of axes that split it and its padded extent,
// and the set of axes over which the value is partial. The moves are the ops of
// the sharding dialect. Axes are cut into the sub-axes that the two layouts
// use, and only axes that they use take part: a replicated axis could share the
// work of a reduction over another one, but then what happens over one axis
// would no longer follow from the program over that axis. Dijkstra's algorithm
// (1959); among paths of equal time the one with fewer collectives wins, then
// the one with fewer ops, then the first in the order of states.

#pragma once

#include <map>

#include "compiler/cost/CostModel.h"

namespace polyrank::cost {

class ReshardPlanner {
public:
  struct Step {
    sharding::MovementKind kind;
    /// The layout of the step's result.
    sharding::LayoutAttr layout;
  };
  struct Plan {
    llvm::SmallVector<Step> steps;
    int64_t picoseconds = 0;
    /// Bytes that one device sends.
    int64_t bytes = 0;
  };

  explicit ReshardPlanner(CostModel model) : model(std::move(model)) {}
  const CostModel &getModel() const { return model; }

  /// The plan from `type`'s layout to `target`; plans are cached. Null if there
  /// is none within the limits: `reason` then says why.
  const Plan *plan(mlir::RankedTensorType type, sharding::LayoutAttr target,
                   std::string *reason = nullptr);

private:
  CostModel model;
  struct Entry {
    std::optional<Plan> plan;
    std::string reason;
  };
  llvm::DenseMap<std::pair<mlir::Type, sharding::LayoutAttr>,
                 std::unique_ptr<Entry>>
      plans;
};

} // namespace polyrank::cost
