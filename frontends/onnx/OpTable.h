// Lists all rows of the op table.

#pragma once

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// The rows of all files, in no particular order.
std::vector<OpRow> listRows();

} // namespace polyrank::frontends::onnx
