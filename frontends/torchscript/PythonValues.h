// What Python's values are to each other: equality, elements, texts.

#pragma once

#include <optional>
#include <string>

#include "frontends/torchscript/Objects.h"
#include "support/Result.h"

namespace polyrank::frontends::torchscript {

/// Python's `==` of values without tensors: containers by their elements.
/// Containers that lie in each other more than 64 deep, or hold more than
/// `maxListSize` values, are equal to none but themselves. Each comparison is
/// taken from `left`; where nothing is left of it, the answer is no answer.
bool areEqual(const Value &a, const Value &b, int64_t &left);

/// `container[index]` of a list, a tuple, a dict or a text; an error, which
/// goes on behind "the code", where it has no such element. `left`: see
/// areEqual.
Result<Value> elementOf(const Value &container, const Value &index,
                        int64_t &left);

/// [first, last) of a sequence as Python slices it; each None for an end.
aten::List sliceOf(const aten::List &elements, const Value &first,
                   const Value &last, int64_t step = 1);

/// Python's `str(value)`; nullopt for one of more than `maxListSize`
/// characters.
std::optional<std::string> toText(const Value &value);

/// The value under `key`; null where there is none. `left`: see areEqual.
Value *findKey(aten::Dict &dict, const Value &key, int64_t &left);

/// `index` counted from the front; nullopt outside of a sequence of `size`.
std::optional<size_t> position(const Value &index, size_t size);

} // namespace polyrank::frontends::torchscript
