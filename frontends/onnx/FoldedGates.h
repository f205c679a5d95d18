// Recovers the parameters of recurrent layers whose gates an exporter put into
// ONNX's order.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// PyTorch orders the gates of an LSTM or GRU differently from ONNX, and has a
/// matrix for each direction. Exporters that fold constants leave no
/// `weight_ih_l0` and no contiguous copy of its values, but one tensor of all
/// directions in ONNX's order. This decomposes each such tensor: its parts are
/// parameters under PyTorch's names, and the tensor is `cat` of their rows (in
/// `state.folded`). The record gives the names; in older exports, which have
/// none, the module of the node and the number of its earlier layers do.
///
/// If such a parameter is also in the file, its values must be equal; otherwise
/// the tensor stays as it is, and is reported in a warning.
void recoverGates(const Model &model, const ExportRecord &record,
                  ModelState &state);

} // namespace polyrank::frontends::onnx
