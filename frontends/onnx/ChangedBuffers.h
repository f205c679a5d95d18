// Buffers that the model's forward changes: moving averages, codebooks, queues.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// Whether the file holds the value that the buffer `name` becomes, so that the
/// buffer is an argument of each step and not a constant.
bool isChanged(const Model &model, const ExportRecord &record,
               llvm::StringRef name);

/// Finds what buffers become (`state.updates`). PyTorch's exporter notes the
/// changes and leaves out of the graph what no output needs, and its optimizer
/// what it could compute: a buffer that forward reads, and whose next value is
/// gone, is named in `state.staleBuffers`; one that forward does not read, in a
/// warning. The statistics of a BatchNormalization are its own matter
/// (`--batch-norm`).
void findChangedBuffers(const Model &model, const ExportRecord &record,
                        const Consumers &consumers, ModelState &state);

} // namespace polyrank::frontends::onnx
