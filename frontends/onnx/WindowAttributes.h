// Windows over spatial dims, from the attributes of a node.

#pragma once

#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// Attribute `name` with one integer per spatial dim, or `otherwise`.
llvm::FailureOr<llvm::SmallVector<int64_t>>
perDim(NodeImporter &n, llvm::StringRef name, size_t count, int64_t otherwise);

/// The windows over the spatial dims of `x`, those after the first two.
llvm::FailureOr<llvm::SmallVector<Window>>
findWindows(NodeImporter &n, const Shape &x, llvm::ArrayRef<int64_t> sizes);

} // namespace polyrank::frontends::onnx
