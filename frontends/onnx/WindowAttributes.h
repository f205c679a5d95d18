// Windows over spatial dims as the attributes of a node say them.

#pragma once

#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// Attribute `name` with one integer per spatial dim, or `otherwise`.
llvm::FailureOr<llvm::SmallVector<int64_t>>
perDim(NodeImporter &n, llvm::StringRef name, size_t count, int64_t otherwise);

/// The windows over the dims of `x` behind the first two.
llvm::FailureOr<llvm::SmallVector<Window>>
findWindows(NodeImporter &n, const Shape &x, llvm::ArrayRef<int64_t> sizes);

} // namespace polyrank::frontends::onnx
