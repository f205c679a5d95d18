// The rows of the table for ops of the domain com.microsoft.

#pragma once

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

llvm::ArrayRef<OpRow> getFusedRows();
llvm::ArrayRef<OpRow> getFusedAttentionRows();
llvm::ArrayRef<OpRow> getFusedProductRows();

} // namespace polyrank::frontends::onnx
