// Weights that a file declares but does not hold.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Turns inputs that PyTorch's exporter calls parameters or buffers into
/// initializers without elements. The exporter writes such inputs with
/// `include_initializers=False, keep_initializers_as_inputs=True`.
void addAbsentWeights(Model &model);

} // namespace polyrank::frontends::onnx
