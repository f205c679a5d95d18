// Weights that a file speaks of and does not hold.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Inputs that PyTorch's exporter calls parameters or buffers, as it writes
/// them with `include_initializers=False, keep_initializers_as_inputs=True`,
/// become initializers without elements.
void addAbsentWeights(Model &model);

} // namespace polyrank::frontends::onnx
