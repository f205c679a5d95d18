// How many ranks each of several machines runs.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string_view>

namespace polyrank {

/// Returns how many of `ranks` ranks each of `machines` machines runs, the same
/// number on all. Fails if there is none; the error begins with "the WHOSE's",
/// such as "the plan's 4 ranks".
Result<int64_t> ranksOfEach(std::string_view whose, int64_t ranks,
                            int64_t machines);

} // namespace polyrank
