// Nodes that cannot be imported.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/import/Failures.h"
#include "frontends/onnx/Model.h"
#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends::onnx {

/// Versions of op sets by domain; "" is ONNX's own.
using Opsets = std::map<std::string_view, int64_t>;
/// Emits an error at `location` if a version of ONNX's own opset is not
/// supported.
mlir::FailureOr<Opsets> toOpsets(mlir::Location location,
                                 const std::vector<OpsetImport> &imports);

/// Collects failures by node.
class Failures {
public:
  void add(const Node &node, const std::string &reason);
  /// Adds a node that no row of the table imports under `opsets`.
  void addUnsupported(const Node &node, const Opsets &opsets);
  /// The number of nodes added.
  size_t getNumNodes() const { return numNodes; }
  /// The number of distinct reasons.
  size_t getNumReasons() const { return failures.getNumReasons(); }
  /// See frontends::Failures.
  llvm::LogicalResult report(mlir::Location location,
                             std::vector<UnsupportedNodes> *into) const {
    return failures.report(location, into);
  }

  static constexpr size_t maxReasons = frontends::Failures::maxReasons;

private:
  frontends::Failures failures;
  size_t numNodes = 0;
};

} // namespace polyrank::frontends::onnx
