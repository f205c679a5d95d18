// `--mesh data=2,tensor=2` as an attribute.

#pragma once

#include "dialects/sharding/Layout.h"

namespace polyrank::driver {

/// An empty text is the mesh of one device without axes. Errors name the axis,
/// what it says and what is expected.
mlir::FailureOr<sharding::MeshAttr>
parseMesh(mlir::MLIRContext &context, llvm::StringRef text, std::string &error);

} // namespace polyrank::driver
