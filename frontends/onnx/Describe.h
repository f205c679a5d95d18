// Describes an ONNX file, as far as it needs no sizes for open dims; nothing is
// imported.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// An error says what is wrong with the file, or with the freezing that
/// `options` ask for.
Result<ModelDescription> describeOnnx(llvm::StringRef path,
                                      const ImportOptions &options);

} // namespace polyrank::frontends
