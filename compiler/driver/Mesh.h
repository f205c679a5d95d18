// `--mesh data=2,tensor=2` as an attribute.

#pragma once

#include "dialects/sharding/Layout.h"
#include "support/Result.h"

namespace polyrank::driver {

/// Parses a mesh. An empty text is the mesh of one device without axes. Errors
/// name the axis, its text, and what is expected.
Result<sharding::MeshAttr> parseMesh(mlir::MLIRContext &context,
                                     llvm::StringRef text);

} // namespace polyrank::driver
