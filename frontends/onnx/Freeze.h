// Selects the parameters that are not trained: `--freeze`, `--train-only`, and
// suggestions from the file.

#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// Makes the parameters that `patterns` match not trainable and, if `only` is
/// not empty, all that `only` does not match; a note says how many are left. A
/// tied parameter can be matched by any of its names. Returns an error, else
/// "": a pattern that matches nothing trainable, a parameter that both lists
/// match, or nothing left to train.
std::string freeze(ModelState &state, llvm::ArrayRef<std::string> patterns,
                   llvm::ArrayRef<std::string> only);

/// Suggests trained parameters that probably should be frozen, with the option
/// that freezes each kind: tables of sinusoids, and matrices with low-rank
/// adapters beside them. If the file does not tell buffers from parameters,
/// also tensors whose name or value shows a buffer, and embeddings with a row
/// of zeros. One sentence for each kind.
std::vector<std::string> suggestFreezing(const Model &model,
                                         const ModelState &state);

} // namespace polyrank::frontends::onnx
