// --why: the reasons of a plan's communication.

#pragma once

#include "runtime/plan/PlanReport.h"
#include "support/Result.h"

#include <string>

namespace polyrank::runtime {

/// Returns true if `name` is a part of a name in the reason, or a glob that
/// matches one.
bool mentions(const CollectiveReason &reason, const std::string &name);

/// Returns the error that no reason mentions `name`, with similar names.
Error matchesNothing(const PlanReport &report, const std::string &name);

/// Prints the collectives that mention `name`, or all if it is empty. Those
/// that differ only in layer and segment are one entry. Fails if there are
/// none.
Result<void> printReasons(const PlanReport &report, const std::string &name);

} // namespace polyrank::runtime
