// Which parameters are not trained: `--freeze`, `--train-only`, and what the
// file suggests.

#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// What the patterns name is not trainable any more, or, with `only`, what they
/// do not name; a note says how many are left. A tied parameter goes by any of
/// its names. Returns what is wrong: a pattern that names nothing trainable, a
/// parameter that both name, or that nothing is left.
std::string freeze(ModelState &state, llvm::ArrayRef<std::string> patterns,
                   llvm::ArrayRef<std::string> only);

/// Parameters that are trained and that one may well not want to be, with the
/// option that keeps each kind: tables of sinusoids, matrices beside which
/// low-rank ones are trained. Where the file does not tell buffers from
/// parameters, also what its name or value shows to be a buffer, and embeddings
/// with a row of zeros. One sentence each.
std::vector<std::string> suggestFreezing(const Model &model,
                                         const ModelState &state);

} // namespace polyrank::frontends::onnx
