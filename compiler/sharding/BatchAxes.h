// The axes that split the batch.

#pragma once

#include <string>

#include "dialects/sharding/Layout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/Result.h"

namespace polyrank::sharding {

/// The names in "a+b".
llvm::SmallVector<llvm::StringRef> splitAxes(llvm::StringRef text);

/// The names of the batch axes: those in `given`, or by default `replica` and
/// `data`.
llvm::SmallVector<llvm::StringRef> getBatchAxisNames(llvm::StringRef given);

/// The axes with more than one device that split the batch unless a pattern
/// says otherwise. Fails if the mesh lacks an axis of `given`.
Result<llvm::SmallVector<AxisRef>> findBatchAxes(MeshAttr mesh,
                                                 llvm::StringRef given);

/// "axis data=2", "axes replica=2 and data=4 together".
std::string describeBatchAxes(MeshAttr mesh, llvm::ArrayRef<AxisRef> axes);

/// Emits the error that these axes do not divide the batch (dim 1) of an input,
/// and suggests a batch or a mesh that works.
mlir::LogicalResult refuseBatch(mlir::func::FuncOp function, unsigned argument,
                                MeshAttr mesh, llvm::ArrayRef<AxisRef> axes);

} // namespace polyrank::sharding
