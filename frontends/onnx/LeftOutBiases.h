// Biases that the exporter's optimizer removed because they were zero.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// An export with `optimize=True` removes the bias of a convolution or linear
/// layer if it is all zeros, as layers are often initialised. The node keeps
/// the name of the rewrite rule and the record of its operands. So each such
/// bias is made a parameter again, zeros of the size of the layer's outputs,
/// and an operand of its node, with one note for all.
void recoverBiases(const Model &model, const ExportRecord &record,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
