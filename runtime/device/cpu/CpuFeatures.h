// Which features this CPU has, by the names that LLVM gives them.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// Whether this CPU (and kernel) offers `feature`, e.g. "avx512f". A leading
/// '+' is skipped. A name that is not known is a feature that is not there.
bool cpuHas(std::string_view feature);

/// Those of `features` that are missing here, in order. "-name" asks for
/// nothing.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &features);

} // namespace polyrank::runtime
