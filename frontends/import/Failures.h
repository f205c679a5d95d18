// Collects everything in a model that cannot be imported, for one report.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/import/Options.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ArrayRef.h"

namespace polyrank::frontends {

class Failures {
public:
  /// `reason` begins with the name of the op; `place` is its place in the
  /// user's model: "`node_3` in h.0.mlp".
  void add(const std::string &reason, std::string place);
  /// Adds an op that is not known at all; the report lists these reasons first.
  void addUnsupported(const std::string &reason, std::string place);
  bool empty() const { return unsupported.empty() && failures.empty(); }
  /// The number of distinct reasons, without those of unknown ops.
  size_t getNumReasons() const { return failures.size(); }

  /// Emits one diagnostic at `location`, or appends all failures to `into` if
  /// that is not null. Returns success if nothing failed.
  llvm::LogicalResult report(mlir::Location location,
                             std::vector<UnsupportedNodes> *into) const;

  static constexpr size_t maxReasons = 20; // in one report

private:
  std::map<std::string, std::vector<std::string>> unsupported, failures;
};

} // namespace polyrank::frontends
