// Batch norms that an exporter merged into the convolutions in front of them.

#pragma once

#include "frontends/onnx/NamedParameters.h"

namespace polyrank::frontends::onnx {

/// A convolution behind which `(y - mean) / sqrt(variance + eps) * scale +
/// shift` stood has the weight `w * s` and the bias `(b - mean) * s + shift`
/// with `s = scale / sqrt(variance + eps)`. Where the tensors of `named` give a
/// convolution's weight and bias so, these become that expression, with a note.
/// The norms keep their statistics. A norm whose node is in the graph is not
/// merged, whatever its values (a new one changes next to nothing), and neither
/// is any into a weight that is as the file has it.
void recoverNorms(const Model &model, const ExportRecord &record,
                  const NamedTensors &named, NamedParameters &parameters,
                  ModelState &state);

} // namespace polyrank::frontends::onnx
