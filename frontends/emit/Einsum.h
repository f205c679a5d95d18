// Einsum: sums of products, written with a letter per dim.

#pragma once

#include <string>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// "bij,bjk->bik" of floats, with an ellipsis and repeated letters as NumPy has
/// them.
mlir::FailureOr<Imported> einsum(Emitter &emit, std::string equation,
                                 llvm::ArrayRef<Imported> operands);

} // namespace polyrank::frontends
