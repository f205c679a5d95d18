// Biases that the exporter's optimizer left out because they were zero.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// A convolution or linear layer whose bias is all zeros, as layers are often
/// initialised, loses it in an export with `optimize=True`. Its node keeps the
/// name of the rewriting rule and the record of its operands: so each such bias
/// is a parameter again, zeros of the layer's outputs, and an operand of its
/// node, with one note for all.
void recoverBiases(const Model &model, const ExportRecord &record,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
