// Selects the parameters that are not trained: `--freeze` and `--train-only`.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace polyrank::frontends {

/// A parameter or buffer, as the patterns see it. The caller owns what it
/// refers to.
struct Freezable {
  const std::string &name;
  const std::vector<std::string> &aliases;
  bool isFloat; // others have no gradient
  int64_t elements;
  bool &trainable;
};

/// Makes the parameters that `patterns` match not trainable and, if `only` is
/// not empty, all that `only` does not match. A tied parameter can be matched
/// by any of its names. `notes` gets a line on how many are frozen. Returns an
/// error, else "": a pattern that matches nothing trainable, a parameter that
/// both lists match, or nothing left to train.
std::string freeze(llvm::ArrayRef<Freezable> parameters,
                   llvm::ArrayRef<std::string> patterns,
                   llvm::ArrayRef<std::string> only,
                   std::vector<std::string> &notes);

} // namespace polyrank::frontends
