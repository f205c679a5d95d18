// Padding with copies of what is there.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Whether `padByCopies` has the mode.
bool isCopyMode(llvm::StringRef mode);

/// `x` with `before` and `after` further elements of dim `dim`: copies of the
/// nearest (`mode` "edge"), of those on the other side ("wrap"), or of those
/// mirrored at the border, which is not repeated ("reflect").
mlir::FailureOr<Imported> padByCopies(Emitter &emit, const Imported &x,
                                      int64_t dim, int64_t before,
                                      int64_t after, llvm::StringRef mode);

} // namespace polyrank::frontends
