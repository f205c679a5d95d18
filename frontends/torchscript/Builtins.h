// Python's own functions on lists, dicts, texts and truth values, as
// TorchScript names them (`torch.append`): what PyTorch's operators on tensors
// are not.

#pragma once

#include <optional>
#include <string>

#include "frontends/aten/Nested.h"
#include "frontends/aten/Operators.h"
#include "frontends/torchscript/Objects.h"
#include "support/Result.h"

namespace polyrank::frontends::torchscript {

using aten::maxListSize;

/// What the operator `name` ("aten::append") gives for these arguments; nullopt
/// where it is none of a container, a text or a truth value. Errors go on
/// behind "the code". Comparisons of values are taken from `left`; where
/// nothing is left of it, the result means nothing.
std::optional<Result<Value>> callBuiltin(llvm::StringRef name,
                                         llvm::ArrayRef<Value> arguments,
                                         int64_t &left);

} // namespace polyrank::frontends::torchscript
