// Weights in files of exporters other than PyTorch's.

#pragma once

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Returns true if PyTorch made the file, according to its producer name.
bool isOfPyTorch(const Model &model);

/// Returns true if an exporter made up the name for a computed value:
/// `/h.0/Reshape_1` and `onnx::MatMul_34` in any file, `val_12` and `17` in
/// PyTorch's. Other exporters give such names to weights
/// (`StatefulPartitionedCall/model/dense/MatMul:0`).
bool isMadeUp(const Model &model, std::string_view name);

/// Turns `Constant` nodes of the main graph into initializers if they hold
/// floats of more than one element, have a name that is not made up, and are
/// used only by layers and sums: paddle2onnx and spox write weights like this.
/// What PyTorch's exporter has described (ExportRecord.h) is left alone.
void liftConstants(Model &model);

} // namespace polyrank::frontends::onnx
