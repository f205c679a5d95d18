// Python's own functions on lists, dicts, texts and truth values, as
// TorchScript names them (`torch.append`): what PyTorch's operators on tensors
// are not.

#pragma once

#include <optional>
#include <string>

#include "frontends/aten/Operators.h"
#include "frontends/torchscript/Objects.h"

namespace polyrank::frontends::torchscript {

/// No list has more elements and no text more characters: a loop could double
/// them.
constexpr size_t maxListSize = 1 << 20;

/// What the operator `name` ("aten::append") gives for these arguments; nullopt
/// where it is none of a container, a text or a truth value, and for what
/// `error` then says is wrong.
std::optional<Value> callBuiltin(llvm::StringRef name,
                                 llvm::ArrayRef<Value> arguments,
                                 std::string &error);

/// Python's `==` of values without tensors: containers by their elements.
bool areEqual(const Value &a, const Value &b);

/// `container[index]` of a list, a tuple, a dict or a text; nullopt, with an
/// `error`, where it has no such element.
std::optional<Value> elementOf(const Value &container, const Value &index,
                               std::string &error);

/// [first, last) of a sequence as Python slices it; each None for an end.
aten::List sliceOf(const aten::List &elements, const Value &first,
                   const Value &last, int64_t step = 1);

/// Python's `str(value)`.
std::string toText(const Value &value);

} // namespace polyrank::frontends::torchscript
