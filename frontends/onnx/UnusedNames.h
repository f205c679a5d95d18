// Names of tied parameters that no node gives.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// PyTorch's exporter uses only one name of a tied parameter, and no node gives
/// the other names if their modules compute nothing. Two kinds can be
/// recognised:
///
/// - the bias that a head shares with its last layer, whose weight is tied to
///   the embedding (`lm_head.bias` and `lm_head.decoder.bias`);
/// - the embedding that other modules share (`model.shared.weight`), listed
///   before them.
///
/// Any other unused name is a parameter that forward does not need; the file
/// has neither its elements nor its shape.
void adoptUnused(const Model &model, const ExportRecord &record,
                 ModelState &state);

} // namespace polyrank::frontends::onnx
