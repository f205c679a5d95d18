// What moving values between layouts costs.

#pragma once

#include "compiler/cost/ReshardPlanner.h"
#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// The layout without what its padding holds.
LayoutAttr withoutFill(LayoutAttr layout);

/// Bytes that reshards send, of equal ones computed once.
class ReshardCosts {
public:
  explicit ReshardCosts(MeshAttr mesh)
      : planner(cost::CostModel::countingBytes(mesh)) {}

  /// The cheapest way to make all of `wanted` from `from`: for each the one
  /// that it is made of (-1: `from`), in an order in which that is possible.
  /// Negative bytes where there is none.
  struct Making {
    int64_t bytes = 0;
    llvm::SmallVector<std::pair<int, int>> steps; // (wanted, parent)
  };
  Making make(mlir::RankedTensorType type, LayoutAttr from,
              llvm::ArrayRef<LayoutAttr> wanted);
  /// Bytes of a step that a value of layout `from` sends to be in all of
  /// `wanted`; negative where it cannot be.
  int64_t getValueBytes(const TensorValue &value, LayoutAttr from,
                        llvm::ArrayRef<LayoutAttr> wanted);

private:
  int64_t getBytes(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  cost::ReshardPlanner planner;
  llvm::DenseMap<std::tuple<mlir::Type, LayoutAttr, LayoutAttr>, int64_t> bytes;
};

} // namespace polyrank::sharding
