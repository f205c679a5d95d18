// Whether two stored matrices have the same elements.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Whether all elements of `tensor` are the same: such values say nothing about
/// where they come from. Reads until the first that differs.
bool isConstant(const Model &model, const StoredTensor &tensor);

/// Whether matrix `b`, or with `transposed` its transpose, has the elements of
/// `a`. A few elements are compared first, so matrices that differ cost as good
/// as nothing; equal ones are read once, in pieces. False where one of them
/// cannot be read.
bool areEqual(const Model &model, const StoredTensor &a, const StoredTensor &b,
              bool transposed);

} // namespace polyrank::frontends::onnx
