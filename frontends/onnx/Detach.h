// Finds where no gradient passes, according to the exporter's metadata and to
// `--detach`.

#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontends/onnx/Parameters.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::onnx {

struct Detached {
  /// Values of the graph, each with the index of the pattern that matches it.
  llvm::StringMap<size_t> values;
  /// Operands that were detached by a node that the exporter's optimizer has
  /// removed.
  std::set<std::pair<const Node *, size_t>> operands;
  std::vector<std::string> warnings, notes;
  std::string error;
};

/// A `detach()` that is still in the file is imported as Identity. This covers
/// the other cases:
///
/// - The exporter's optimizer removes that node, but the record of a node that
///   used its result, `mul(%linear, %detach)`, still names it.
/// - A pattern matches values of the graph, or modules; a module stands for the
///   values that leave it. Leading modules may be left out. A pattern that
///   matches nothing, a parameter or an input is an error.
/// - A region that was exported as a graph of its own (`torch.no_grad()` causes
///   this) and a custom `autograd.Function` are visible in the stack traces of
///   the nodes, but their gradients are not. One warning names the values that
///   leave them, unless a pattern matches these.
Detached findDetached(const Model &model, const ModelState &state,
                      llvm::ArrayRef<std::string> patterns);

} // namespace polyrank::frontends::onnx
