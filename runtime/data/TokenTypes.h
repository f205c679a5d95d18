// The type of the tokens in a file that does not say it.

#pragma once

#include "support/arrays/StoredArray.h"

namespace polyrank::runtime {

/// The last suffix of a path, lower case, with its dot.
std::string suffixOf(const std::string &path);

/// The type of the tokens in a file of raw tokens: `given` (--token-type), else
/// what the file's name says (.bin: uint16). The error names the types that are
/// read.
Result<ValueType> tokenTypeOf(const std::string &path,
                              const std::string &given);

/// Refuses tokens of a type that only the file's name says where the bytes are
/// those of a wider type: the upper part of every wider value that is looked at
/// is as small as ids below `limit` (of the vocabulary; 0: unknown) make it.
/// NumPy saves [3, 1, 2] as int64, of which uint16 would be 3 0 0 0 1 0 0 0 2 0
/// 0 0. The error names the type that fits. Looks at a few blocks of the file.
Result<void> refuseWiderTokens(const StoredArray &tokens, int64_t limit);

/// The type, other than that of `tokens`, of which all values that are looked
/// at are below `limit` (which must be known); "" where there is none.
std::string otherTypeThatFits(const StoredArray &tokens, int64_t limit);

} // namespace polyrank::runtime
