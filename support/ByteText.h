// Amounts of memory as people read them.

#pragma once

#include <cstdint>
#include <string>

namespace polyrank {

/// Returns the amount in the largest unit of which it has at least one, with a
/// digit after the point below 100: `12.3 MiB`, `150 KiB`, `1023 B`.
std::string bytesText(uint64_t bytes);

} // namespace polyrank
