// What of a model cannot be imported, all of it in one report.

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
  /// `reason` begins with the op's name; `place` says where it stands in the
  /// user's model: "`node_3` in h.0.mlp".
  void add(const std::string &reason, std::string place);
  /// An op that is not known at all; such reasons come first in the report.
  void addUnsupported(const std::string &reason, std::string place);
  bool empty() const { return unsupported.empty() && failures.empty(); }
  /// That differ, without those of unknown ops.
  size_t getNumReasons() const { return failures.size(); }

  /// One diagnostic at `location`, or what `into` is given; success where
  /// nothing failed.
  llvm::LogicalResult report(mlir::Location location,
                             std::vector<UnsupportedNodes> *into) const;

  static constexpr size_t maxReasons = 20; // in one report

private:
  std::map<std::string, std::vector<std::string>> unsupported, failures;
};

} // namespace polyrank::frontends
