// Which parameters are not trained: `--freeze` and `--train-only`.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace polyrank::frontends {

/// A parameter or buffer, as far as patterns ask. What it refers to is the
/// caller's.
struct Freezable {
  const std::string &name;
  const std::vector<std::string> &aliases;
  bool isFloat; // others have no gradient
  int64_t elements;
  bool &trainable;
};

/// What the patterns name is not trainable any more, or, with `only`, what they
/// do not name; one of `notes` says how many are left. A tied parameter goes by
/// any of its names. Returns what is wrong: a pattern that names nothing
/// trainable, a parameter that both name, or that nothing is left.
std::string freeze(llvm::ArrayRef<Freezable> parameters,
                   llvm::ArrayRef<std::string> patterns,
                   llvm::ArrayRef<std::string> only,
                   std::vector<std::string> &notes);

} // namespace polyrank::frontends
