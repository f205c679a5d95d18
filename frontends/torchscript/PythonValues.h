// Operations on Python's values: equality, element access, conversion to text.

#pragma once

#include <optional>
#include <string>

#include "frontends/torchscript/Objects.h"
#include "support/Result.h"

namespace polyrank::frontends::torchscript {

/// Python's `==` for values without tensors: containers are compared by their
/// elements. Containers that are nested more than 64 deep, or that hold more
/// than `maxListSize` values, are equal only to themselves. Each comparison is
/// subtracted from `left`; if it is used up, the result is meaningless.
bool areEqual(const Value &a, const Value &b, int64_t &left);

/// `container[index]` for a list, tuple, dict or string. If there is no such
/// element, the error message continues "the code". `left`: see areEqual.
Result<Value> elementOf(const Value &container, const Value &index,
                        int64_t &left);

/// The slice [first, last) of a sequence as in Python; None stands for an end.
aten::List sliceOf(const aten::List &elements, const Value &first,
                   const Value &last, int64_t step = 1);

/// Python's `str(value)`; nullopt if it has more than `maxListSize` characters.
std::optional<std::string> toText(const Value &value);

/// The value under `key`; null if there is none. `left`: see areEqual.
Value *findKey(aten::Dict &dict, const Value &key, int64_t &left);

/// `index` counted from the front; nullopt if outside a sequence of `size`.
std::optional<size_t> position(const Value &index, size_t size);

} // namespace polyrank::frontends::torchscript
