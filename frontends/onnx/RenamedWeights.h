// Weights of linear layers and convolutions that an exporter's optimizer
// renamed, transposed or copied.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// By name of value: the nodes that take it, each with the operand number.
using Consumers =
    llvm::StringMap<llvm::SmallVector<std::pair<const Node *, size_t>>>;

/// If a layer uses `tensor`, which has a made-up name, makes it a parameter
/// again, under the name that the record of the node or the node's module
/// gives. A transposed copy of another parameter becomes that parameter, with
/// `tie`.
void recoverWeight(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, const StoredTensor &tensor,
                   bool tie, ModelState &state);

} // namespace polyrank::frontends::onnx
