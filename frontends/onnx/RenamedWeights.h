// Weights of linear layers and convolutions that an exporter's optimizer
// renamed, transposed or copied.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// The nodes that take a value, and as which operand, by its name.
using Consumers =
    llvm::StringMap<llvm::SmallVector<std::pair<const Node *, size_t>>>;

/// Makes `tensor`, which has a made-up name, a parameter again where a layer
/// uses it: under the name that the record of the node or the node's module
/// says. A transposed copy of another parameter becomes that one with `tie`.
void recoverWeight(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, const StoredTensor &tensor,
                   bool tie, ModelState &state);

} // namespace polyrank::frontends::onnx
