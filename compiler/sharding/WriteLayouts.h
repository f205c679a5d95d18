// Writes a solution into the program: types, and reshards where producer and
// user of a value disagree.

#pragma once

#include "compiler/sharding/Propagation.h"

namespace polyrank::sharding {

/// Per value that others than the parts want (readParts): the one that has the
/// layout wanted.
using SuppliedValues = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Sets the types of all values and inserts reshards. Emits an error where
/// there is no way from one layout to another.
mlir::FailureOr<SuppliedValues> writeLayouts(const Propagated &propagated);

/// Lays out ops that stand between others which have their layouts: readParts,
/// solved and written. `isUpdate`: of each of them (Node).
mlir::FailureOr<SuppliedValues>
layOutParts(MeshAttr mesh, llvm::ArrayRef<mlir::Operation *> ops,
            const llvm::MapVector<mlir::Value, LayoutAttr> &wanted,
            llvm::StringRef reason, bool isUpdate = false);

} // namespace polyrank::sharding
