// Writes a solution into the program: types, and reshards where producer and
// user of a value disagree.

#pragma once

#include "compiler/sharding/Propagation.h"

namespace polyrank::sharding {

/// Maps each value of `wanted` (readParts) to the value in the wanted layout.
using SuppliedValues = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Sets the types of all values and inserts reshards. Emits an error if a
/// layout cannot be converted to another.
mlir::FailureOr<SuppliedValues> writeLayouts(const Propagated &propagated);

/// Lays out ops among others that have layouts: readParts, solve, write.
/// `isUpdate` is set on each of their nodes.
mlir::FailureOr<SuppliedValues>
layOutParts(MeshAttr mesh, llvm::ArrayRef<mlir::Operation *> ops,
            const llvm::MapVector<mlir::Value, LayoutAttr> &wanted,
            llvm::StringRef reason, bool isUpdate = false);

} // namespace polyrank::sharding
