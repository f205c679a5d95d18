// The rows of the op table for the domain com.microsoft.

#pragma once

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

llvm::ArrayRef<OpRow> getFusedRows();
llvm::ArrayRef<OpRow> getFusedAttentionRows();
llvm::ArrayRef<OpRow> getFusedProductRows();

} // namespace polyrank::frontends::onnx
