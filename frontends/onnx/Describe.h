// What an ONNX file holds, as far as that can be said without sizes for its
// open dims: nothing is imported.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// An error says what is wrong with the file, or with what `options` freeze.
Result<ModelDescription> describeOnnx(llvm::StringRef path,
                                      const ImportOptions &options);

} // namespace polyrank::frontends
