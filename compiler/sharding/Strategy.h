// Strategy: what the user or an option fixed, written as constraints.

#pragma once

#include <string>
#include <vector>

#include "dialects/sharding/Layout.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::sharding {

struct StrategyOptions {
  sharding::MeshAttr mesh;
  /// PATTERN=DIMS, see ShardPattern.h. Where several name the same thing
  /// the one of the more important priority holds, else the last; a remark says
  /// so.
  std::vector<std::string> shards;
  /// What splits the batch, most major first; without one, `replica` and `data`
  /// where the mesh has them.
  std::string batchAxes;
};

/// The names in "a+b".
llvm::SmallVector<llvm::StringRef> splitAxes(llvm::StringRef text);

/// What splits the batch: `given`, or by default `replica` and `data`.
llvm::SmallVector<llvm::StringRef> getBatchAxisNames(llvm::StringRef given);

/// The axes that split the batch unless a pattern says otherwise, of more than
/// one device. Fails with `error` where the mesh has none of a given name.
mlir::FailureOr<llvm::SmallVector<AxisRef>>
findBatchAxes(MeshAttr mesh, llvm::StringRef given, std::string &error);

/// Writes constraints on @step for propagate-layouts: `sharding.mesh` on the
/// module, `sharding.layout`, `sharding.open`, `sharding.priority` and
/// `sharding.from` on arguments, `sharding.constraint` on the ops that compute
/// a module's output.
///
/// A pattern on a parameter speaks of its stored dims. Where the program uses a
/// view of it (its role says which), an axis goes to the stored dim's most
/// major factor that is never sliced and is a batch dim of attention (whole
/// heads), else to its most major factor that is never sliced; a dim that the
/// axis does not divide is padded with zeros. Remarks say which.
///
/// The batch axes split the batch (dim 1) of every input that no pattern names,
/// at the lowest priority; a remark says so.
///
/// Errors name the pattern: it matches nothing, has another number of dims, an
/// unknown or repeated axis; a batch that the axis does not divide; an axis of
/// the mesh that nothing uses.
mlir::LogicalResult applyStrategy(mlir::ModuleOp module,
                                  const StrategyOptions &options);

} // namespace polyrank::sharding
