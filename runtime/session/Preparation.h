// Finds, opens and checks what a run needs, before a rank is started.

#pragma once

#include "runtime/session/Prepared.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// The result of one check, or why it fails.
struct CheckLine {
  const char *name; // "memory"
  bool holds;
  std::string text;
};

/// Checks the inputs and outputs of a run, from its options.
class Preparation {
public:
  explicit Preparation(const SessionOptions &given) {
    prepared.options = given;
  }

  /// Opens everything, and stops at the first error. Called once.
  Result<Prepared> run();

  /// Checks everything, including what `run` leaves to the ranks (each byte of
  /// the weights, each value of the data, the kernels' code), and returns all
  /// results. Only what depends on a failed check is skipped. No rank is
  /// started, and no outputs are left.
  std::vector<CheckLine> checkAll();

private:
  Prepared prepared;
};

} // namespace polyrank::runtime
