// What of a model cannot be imported, all of it in one report.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::frontends::onnx {

/// Versions of op sets by domain; "" is ONNX's own.
using Opsets = std::map<std::string_view, int64_t>;
/// An error at `location` for a version of ONNX's own that is not supported.
mlir::FailureOr<Opsets> toOpsets(mlir::Location location,
                                 const std::vector<OpsetImport> &imports);

/// Nodes are kept by address.
class Failures {
public:
  void add(const Node &node, std::string reason);
  /// No row of the table imports the node under `opsets`.
  void addUnsupported(const Node &node, const Opsets &opsets);
  /// All that were added.
  size_t getNumNodes() const { return numNodes; }
  /// That differ.
  size_t getNumReasons() const { return failures.size(); }

  /// One diagnostic at `location`, or what `into` is given; success where
  /// nothing failed.
  llvm::LogicalResult report(mlir::Location location,
                             std::vector<UnsupportedNodes> *into) const;

  static constexpr size_t maxReasons = 20; // in one report

private:
  std::map<std::string, llvm::SmallVector<const Node *>> unsupported, failures;
  size_t numNodes = 0;
};

} // namespace polyrank::frontends::onnx
