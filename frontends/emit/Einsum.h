// Einsum: sums of products, with a letter per dim.

#pragma once

#include <string>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Computes an equation such as "bij,bjk->bik" on floats, with an ellipsis and
/// repeated letters as in NumPy.
mlir::FailureOr<Imported> einsum(Emitter &emit, std::string equation,
                                 llvm::ArrayRef<Imported> operands);

} // namespace polyrank::frontends
