// Buffers that the model's forward changes: moving averages, codebooks, queues.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// Returns true if the file holds the new value of the buffer `name`, so that
/// the buffer is an argument of each step and not a constant.
bool isChanged(const Model &model, const ExportRecord &record,
               llvm::StringRef name);

/// Finds the new values of buffers (`state.updates`). PyTorch's exporter
/// records the changes but leaves out of the graph what no output needs, and
/// its optimizer removes what it could compute. A buffer whose new value is
/// gone is named in `state.staleBuffers` if forward reads it, else in a
/// warning. The statistics of a BatchNormalization are handled elsewhere
/// (`--batch-norm`).
void findChangedBuffers(const Model &model, const ExportRecord &record,
                        const Consumers &consumers, ModelState &state);

} // namespace polyrank::frontends::onnx
