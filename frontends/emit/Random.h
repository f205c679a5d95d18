// Random numbers of distributions other than the uniform one.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Normally distributed numbers with mean 0 and variance 1: Box and Muller
/// (1958).
Imported standardNormal(Emitter &emit, llvm::ArrayRef<int64_t> shape);

} // namespace polyrank::frontends
