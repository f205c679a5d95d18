// Finds functions of one to three parameters that give a constant.

#pragma once

#include "frontends/onnx/SampledConstant.h"

namespace polyrank::frontends::onnx {

/// Appends to `found` the functions of one to three views, which use all of
/// `parameters`, that give the constant: multiples, sums with a number,
/// products, quotients, interpolations, and functions such as exp (the
/// operators of Expression::Kind). If a match could be a coincidence, the
/// recorded operators must include the function.
void findFunctions(const SampledConstant &constant,
                   llvm::ArrayRef<size_t> parameters, LoadParameter load,
                   std::vector<Expression> &found);

} // namespace polyrank::frontends::onnx
