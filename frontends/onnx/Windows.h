// Windows that slide over the spatial dims of an operand [N, C, S..]: what
// convolution and pooling have in common.

#pragma once

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// How the window lies over one spatial dim.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; // padding that the model asks for
  int64_t excess = 0;        // further padding that ceil_mode needs
  int64_t count = 0;         // windows, the size of the result's dim
};

/// Attribute `name` with one integer per spatial dim, or `otherwise`.
llvm::FailureOr<llvm::SmallVector<int64_t>>
perDim(NodeImporter &n, llvm::StringRef name, size_t count, int64_t otherwise);

/// The windows over the dims of `x` behind the first two.
llvm::FailureOr<llvm::SmallVector<Window>>
findWindows(NodeImporter &n, const Shape &x, llvm::ArrayRef<int64_t> sizes);

/// `x` between `low` and `high` further elements of `value`, per spatial dim.
Imported padSpatial(NodeImporter &n, const Imported &x,
                    llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                    double value);

/// [N, C, S..] to [N, C, O.., K..] where O counts windows, and K are the sizes
/// of those windows that have more than one element.
Imported unfold(NodeImporter &n, Imported x, llvm::ArrayRef<Window> windows,
                double padding);

} // namespace polyrank::frontends::onnx
