// Batch norms that an exporter merged into the preceding convolutions.

#pragma once

#include "frontends/onnx/NamedParameters.h"

namespace polyrank::frontends::onnx {

/// A convolution that was followed by `(y - mean) / sqrt(variance + eps) *
/// scale + shift` has the weight `w * s` and the bias `(b - mean) * s + shift`
/// with `s = scale / sqrt(variance + eps)`. If the tensors of `named` give the
/// weight and bias of a convolution in this form, they become that expression,
/// with a note. The norms keep their statistics. A norm whose node is in the
/// graph is not considered merged, whatever its values (a new one changes next
/// to nothing), and no norm is considered merged into a weight that the file
/// has unchanged.
void recoverNorms(const Model &model, const ExportRecord &record,
                  const NamedTensors &named, NamedParameters &parameters,
                  ModelState &state);

} // namespace polyrank::frontends::onnx
