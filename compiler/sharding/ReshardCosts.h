// The costs of moving values between layouts.

#pragma once

#include "compiler/cost/ReshardPlanner.h"
#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// The layout with the fill of all padding undefined.
LayoutAttr withoutFill(LayoutAttr layout);

/// Bytes that reshards send; equal reshards are computed once.
class ReshardCosts {
public:
  explicit ReshardCosts(MeshAttr mesh)
      : planner(cost::CostModel::countingBytes(mesh)) {}

  /// A cheap way to make all layouts in `wanted` from the layout `from` (the
  /// cheapest for up to four, greedy for more). Each step makes one layout from
  /// `parent`, an earlier one (-1: `from`). Negative bytes if it is impossible.
  struct Making {
    int64_t bytes = 0;
    llvm::SmallVector<std::pair<int, int>> steps; // (wanted, parent)
  };
  Making make(mlir::RankedTensorType type, LayoutAttr from,
              llvm::ArrayRef<LayoutAttr> wanted);
  /// Bytes that a device sends per step so that a value of layout `from` is
  /// available in all layouts of `wanted`; negative if that is impossible.
  int64_t getValueBytes(const TensorValue &value, LayoutAttr from,
                        llvm::ArrayRef<LayoutAttr> wanted);

private:
  int64_t getBytes(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);

  cost::ReshardPlanner planner;
  llvm::DenseMap<std::tuple<mlir::Type, LayoutAttr, LayoutAttr>, int64_t> bytes;
};

} // namespace polyrank::sharding
