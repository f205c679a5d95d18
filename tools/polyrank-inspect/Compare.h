// polyrank-inspect --compare, for people.

#pragma once

#include "runtime/report/Comparison.h"

namespace polyrank::runtime {

/// Prints it in at most 100 columns.
void printComparison(const Comparison &comparison);

} // namespace polyrank::runtime
