// Sizes as people write them: "500MB", "2GiB".

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>

namespace polyrank {

/// Parses a whole number of at least 1 and a unit: B, KB, MB, GB, TB (powers of
/// 1000) or KiB, MiB, GiB, TiB (of 1024), in either case. At most 2^60 bytes.
Result<uint64_t> parseBytes(const std::string &text);

} // namespace polyrank
