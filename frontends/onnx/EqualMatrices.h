// Compares the elements of stored matrices.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Returns true if all elements of `tensor` are equal: such values do not tell
/// where they come from. Reads up to the first element that differs.
bool isConstant(const Model &model, const StoredTensor &tensor);

/// Returns true if matrix `b`, or its transpose if `transposed`, has the
/// elements of `a`. A few elements are compared first, so matrices that differ
/// cost almost nothing; equal ones are read once, in pieces. Returns false if
/// one of them cannot be read.
bool areEqual(const Model &model, const StoredTensor &a, const StoredTensor &b,
              bool transposed);

} // namespace polyrank::frontends::onnx
