// Names of tied parameters that no node tells.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// PyTorch's exporter calls a tied parameter by one of its names, and no node
/// tells the others where their modules compute nothing. Two kinds are known,
/// since they say so themselves:
///
/// - the bias that a head shares with its last layer, whose weight is tied to
///   the embedding (`lm_head.bias` and `lm_head.decoder.bias`);
/// - the embedding that only others take (`model.shared.weight`), in front of
///   what takes it.
///
/// Any other name that nothing uses is a parameter which forward does not need;
/// the file has neither its elements nor its shape.
void adoptUnused(const Model &model, const ExportRecord &record,
                 ModelState &state);

} // namespace polyrank::frontends::onnx
