// Where no gradient passes: what the exporter's metadata says of it, and what
// `--detach` adds.

#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontends/onnx/Parameters.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::onnx {

struct Detached {
  /// Values of the graph, each with the number of the pattern that names it.
  llvm::StringMap<size_t> values;
  /// Operands that were detached where the exporter's optimizer has taken the
  /// node away that did it.
  std::set<std::pair<const Node *, size_t>> operands;
  std::vector<std::string> warnings, notes;
  std::string error;
};

/// A `detach()` that the file still has is the importer's of Identity. Beside
/// it:
///
/// - The exporter's optimizer takes that node away, but the record of a node
///   that used its result, `mul(%linear, %detach)`, still names it.
/// - A pattern names values of the graph, or modules: then the values that
/// leave
///   them. Leading modules may be left out. One that matches nothing, a
///   parameter or an input is an error.
/// - A region that was exported as a graph of its own (`torch.no_grad()` makes
///   one) and a custom `autograd.Function` are seen in the nodes' stack traces;
///   what their gradients are is not. One warning names the values that leave
///   them, unless a pattern does.
Detached findDetached(const Model &model, const ModelState &state,
                      llvm::ArrayRef<std::string> patterns);

} // namespace polyrank::frontends::onnx
