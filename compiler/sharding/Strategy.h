// The axes that split the batch.

#pragma once

#include <string>

#include "dialects/sharding/Layout.h"

namespace polyrank::sharding {

/// The names in "a+b".
llvm::SmallVector<llvm::StringRef> splitAxes(llvm::StringRef text);

/// What splits the batch: `given`, or by default `replica` and `data`.
llvm::SmallVector<llvm::StringRef> getBatchAxisNames(llvm::StringRef given);

/// The axes that split the batch unless a pattern says otherwise, of more than
/// one device. Fails with `error` where the mesh has none of a given name.
mlir::FailureOr<llvm::SmallVector<AxisRef>>
findBatchAxes(MeshAttr mesh, llvm::StringRef given, std::string &error);

} // namespace polyrank::sharding
