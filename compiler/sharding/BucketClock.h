// When the computation of a step reaches each of its ops, for the choice of
// buckets.

#pragma once

#include "compiler/cost/Machine.h"
#include "compiler/sharding/BucketChoice.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace polyrank::sharding {

/// The clock of a rank's computation in the last microbatch and in what follows
/// it. Ops are known by their place in a walk of the function in post-order,
/// and take what cost::getKernelTimes says. The computation does not wait for
/// collectives that are to be bucketed; all others start where they stand, and
/// it waits for each where it first reads the result. Ranks of a pipeline stage
/// compute the ops of this stage, and those of none.
class BucketClock {
public:
  using Stage = std::optional<int64_t>;

  /// `isBucketed` says which ops are to be bucketed.
  BucketClock(mlir::func::FuncOp function, const cost::Machine &machine,
              const cost::CostModel &model,
              llvm::function_ref<bool(mlir::Operation &)> isBucketed);

  /// The time when the op at a place ends; 0 for a place of -1.
  double getEnd(int64_t place, Stage stage) const;
  /// How long the computation takes for it on ranks of the stage.
  double getLength(int64_t place, Stage stage) const;
  /// The uses of the link of these axes by collectives that are not to be
  /// bucketed, in order.
  llvm::ArrayRef<LinkUse> getUses(llvm::ArrayRef<AxisRef> axes,
                                  Stage stage) const;

private:
  struct Timed {
    double length = 0; // of the computation
    Stage stage;
  };
  struct Queue {
    llvm::SmallVector<AxisRef> axes;
    std::vector<LinkUse> uses;
    double free = 0;
  };
  struct Course {
    std::vector<double> ends; // by place
    std::vector<Queue> queues;
  };
  bool computes(int64_t place, Stage stage) const;
  Course follow(llvm::ArrayRef<mlir::Operation *> walked,
                const llvm::DenseMap<mlir::Operation *, double> &collectives,
                Stage stage) const;

  std::vector<Timed> ops; // by place
  std::map<Stage, Course> courses;
};

} // namespace polyrank::sharding
