// Python's own functions on lists, dicts, texts and truth values, as
// TorchScript names them (`torch.append`): what PyTorch's operators on tensors
// are not.

#pragma once

#include <optional>
#include <string>

#include "frontends/aten/Operators.h"
#include "frontends/torchscript/Objects.h"
#include "support/Result.h"

namespace polyrank::frontends::torchscript {

/// No list has more elements and no text more characters: a loop could double
/// them.
constexpr size_t maxListSize = 1 << 20;

/// What the operator `name` ("aten::append") gives for these arguments; nullopt
/// where it is none of a container, a text or a truth value. Errors go on
/// behind "the code".
std::optional<Result<Value>> callBuiltin(llvm::StringRef name,
                                         llvm::ArrayRef<Value> arguments);

/// Python's `==` of values without tensors: containers by their elements.
bool areEqual(const Value &a, const Value &b);

/// `container[index]` of a list, a tuple, a dict or a text; an error, which
/// goes on behind "the code", where it has no such element.
Result<Value> elementOf(const Value &container, const Value &index);

/// [first, last) of a sequence as Python slices it; each None for an end.
aten::List sliceOf(const aten::List &elements, const Value &first,
                   const Value &last, int64_t step = 1);

/// Python's `str(value)`.
std::string toText(const Value &value);

} // namespace polyrank::frontends::torchscript
