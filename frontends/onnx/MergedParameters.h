// Parameters that an exporter's optimizer merged because their values were
// equal.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// If the record of a node names state that the file lacks, and an operand is a
/// parameter that the record does not name, then their values were equal and
/// they were merged. The lacking one becomes a parameter of its own, and that
/// operand refers to it. For a node without a record, the module of the nodes
/// that use its outputs decides.
void separateMerged(const Model &model, const ExportRecord &record,
                    const Consumers &consumers, ModelState &state);

} // namespace polyrank::frontends::onnx
