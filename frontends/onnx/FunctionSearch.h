// Functions of one to three parameters that give a constant.

#pragma once

#include "frontends/onnx/SampledConstant.h"

namespace polyrank::frontends::onnx {

/// Appends to `found` the functions of views of all of `parameters`, one to
/// three, that give the constant: multiples, sums with a number, products,
/// quotients, interpolations, and functions such as exp (the operators of
/// Expression::Kind). Where these could be by chance, the recorded operators
/// must have computed them.
void findFunctions(const SampledConstant &constant,
                   llvm::ArrayRef<size_t> parameters, LoadParameter load,
                   std::vector<Expression> &found);

} // namespace polyrank::frontends::onnx
