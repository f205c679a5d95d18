// Finds the parameters of recurrent layers whose gates an exporter put into
// ONNX's order.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// PyTorch has the gates of an LSTM or GRU in another order than ONNX, and a
/// matrix for each direction. Exporters that compute constants leave neither
/// `weight_ih_l0` nor its values in a row, but one tensor of all directions in
/// ONNX's order. This takes each of them apart again: its parts are parameters
/// under PyTorch's names, and the tensor is `cat` of their rows (in
/// `state.folded`). Which they are the record says; in older exports, which
/// have none, the module of the node and how many layers it had before.
///
/// Where a parameter is in the file too, its values must be those, or the
/// tensor stays as it is, to be warned of.
void recoverGates(const Model &model, const ExportRecord &record,
                  ModelState &state);

} // namespace polyrank::frontends::onnx
