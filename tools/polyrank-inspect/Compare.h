// The text output of polyrank-inspect --compare.

#pragma once

#include "runtime/report/Comparison.h"

namespace polyrank::runtime {

/// Prints the comparison in at most 100 columns.
void printComparison(const Comparison &comparison);

} // namespace polyrank::runtime
