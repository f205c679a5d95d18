// All rows of the op table, for what lists them.

#pragma once

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// Each row of each file, in no order.
std::vector<OpRow> listRows();

} // namespace polyrank::frontends::onnx
