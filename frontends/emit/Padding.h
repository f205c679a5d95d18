// Padding with copies of existing elements.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Returns true if `padByCopies` supports the mode.
bool isCopyMode(llvm::StringRef mode);

/// Pads dim `dim` of `x` with `before` and `after` elements: copies of the
/// nearest element (`mode` "edge"), of the elements at the other end ("wrap"),
/// or of the elements mirrored at the border, which is not repeated
/// ("reflect").
mlir::FailureOr<Imported> padByCopies(Emitter &emit, const Imported &x,
                                      int64_t dim, int64_t before,
                                      int64_t after, llvm::StringRef mode);

} // namespace polyrank::frontends
