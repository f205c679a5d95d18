// The type of the tokens in a file that does not state it.

#pragma once

#include "support/arrays/StoredArray.h"

namespace polyrank::runtime {

/// Returns the last suffix of a path, in lower case, with its dot.
std::string suffixOf(const std::string &path);

/// Returns the type of the tokens in a file of raw tokens: `given`
/// (--token-type), else the one of the file's suffix (.bin: uint16). The error
/// lists the supported types.
Result<ElementType> tokenTypeOf(const std::string &path,
                                const std::string &given);

/// Fails if the type of `tokens`, which was inferred from the file's name, is
/// narrower than the bytes suggest: read as a wider type, every sampled value
/// is an id below `limit` (the size of the vocabulary; 0: unknown). NumPy saves
/// [3, 1, 2] as int64, of which uint16 would be 3 0 0 0 1 0 0 0 2 0 0 0. The
/// error names the type that fits. Reads a few blocks of the file.
Result<void> refuseWiderTokens(const StoredArray &tokens, int64_t limit);

/// Returns another type than that of `tokens` as which all sampled values are
/// below `limit` (which must be known); "" if there is none.
std::string otherTypeThatFits(const StoredArray &tokens, int64_t limit);

} // namespace polyrank::runtime
