// Reports what the export did to the model's parameters.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// Adds to the notes and warnings of `state`: one warning about all parameters
/// that the exporter's optimizer removed from the model, grouped by what
/// happened to them, with the call that keeps them; and one note on those whose
/// names were recovered.
void reportState(const Model &model, const ExportRecord &record,
                 ModelState &state);

/// Adds a warning about what the exporter removed because of the values that
/// parameters happened to have.
void warnOfRemoved(const Model &model, const ExportRecord &record,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
