// The features of this CPU, by LLVM's names.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// Returns true if this CPU (and the operating system) offers `feature`, e.g.
/// "avx512f". A leading '+' is skipped. An unknown name counts as a missing
/// feature.
bool cpuHas(std::string_view feature);

/// Returns those of `features` that this CPU lacks, in order. "-name" requires
/// nothing.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &features);

} // namespace polyrank::runtime
