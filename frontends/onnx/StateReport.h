// What became of the model's parameters on their way into the file.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// Adds to the notes and warnings of `state`: one warning for all parameters
/// that an optimizer of the exporter took out of the model, grouped by what
/// happened to them, with the call that keeps them; one note for those whose
/// names were recovered.
void reportState(const Model &model, const ExportRecord &record,
                 ModelState &state);

/// Adds a warning for what the exporter removed because of the values that
/// parameters happened to have.
void warnOfRemoved(const Model &model, const ExportRecord &record,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
