// What an ONNX file holds, as far as that can be said without sizes for its
// open dims: nothing is imported.

#pragma once

#include <optional>
#include <string>

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// On failure `error` says what is wrong with the file, or with what `options`
/// freeze.
std::optional<ModelDescription> describeOnnx(llvm::StringRef path,
                                             std::string &error,
                                             const ImportOptions &options);

} // namespace polyrank::frontends
