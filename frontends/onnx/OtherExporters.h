// What files that are not PyTorch's exporter's say of their weights.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Whether PyTorch made the file, by the producer that it names.
bool isOfPyTorch(const Model &model);

/// Whether an exporter made the name up for what it computed: `/h.0/Reshape_1`
/// and `onnx::MatMul_34` in any file, `val_12` and `17` in PyTorch's. Others
/// give such names to weights (`StatefulPartitionedCall/model/dense/MatMul:0`).
bool isMadeUp(const Model &model, std::string_view name);

/// Makes initializers of the floats of more than one element that nodes
/// `Constant` of the graph itself hold under names that are not made up, and
/// that only layers and sums take: as such paddle2onnx and spox write weights.
/// What PyTorch's exporter has described (ExportRecord.h) stays as it is.
void liftConstants(Model &model);

} // namespace polyrank::frontends::onnx
