// Parameters of equal values that an exporter's optimizer made one.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// Where the record of a node names state that the file lacks, and an operand
/// is a parameter that the record does not name: that is the one whose values
/// were equal. It becomes a parameter of its own, which that operand is. Of a
/// node without a record the module says it whose nodes use its outputs.
void separateMerged(const Model &model, const ExportRecord &record,
                    const Consumers &consumers, ModelState &state);

} // namespace polyrank::frontends::onnx
