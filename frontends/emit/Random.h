// Random numbers of other distributions than the uniform one.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Normal ones, of mean 0 and variance 1: Box and Muller (1958).
Imported standardNormal(Emitter &emit, llvm::ArrayRef<int64_t> shape);

} // namespace polyrank::frontends
