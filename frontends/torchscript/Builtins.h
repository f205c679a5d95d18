// Python's own functions on lists, dicts, strings and truth values, under
// TorchScript's names (`torch.append`), as opposed to PyTorch's operators on
// tensors.

#pragma once

#include <optional>
#include <string>

#include "frontends/aten/Nested.h"
#include "frontends/aten/Operators.h"
#include "frontends/torchscript/Objects.h"
#include "support/Result.h"

namespace polyrank::frontends::torchscript {

using aten::maxListSize;

/// Calls the operator `name` ("aten::append"); nullopt if it is not an operator
/// on a container, a string or a truth value. Error messages continue "the
/// code". Comparisons of values are subtracted from `left`; if it is used up,
/// the result is meaningless.
std::optional<Result<Value>> callBuiltin(llvm::StringRef name,
                                         llvm::ArrayRef<Value> arguments,
                                         int64_t &left);

} // namespace polyrank::frontends::torchscript
