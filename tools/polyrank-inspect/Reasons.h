// --why: the reasons of a plan's communication.

#pragma once

#include "runtime/plan/PlanReport.h"
#include "support/Result.h"

#include <string>

namespace polyrank::runtime {

/// Whether a reason has to do with `name`: part of a name in it, or a glob of
/// one.
bool mentions(const CollectiveReason &reason, const std::string &name);

/// That none has, with names that are near.
Error matchesNothing(const PlanReport &report, const std::string &name);

/// Prints the collectives that have to do with `name`, all where it is empty;
/// those that are alike but for their layer and segment are one entry. An error
/// where there are none.
Result<void> printReasons(const PlanReport &report, const std::string &name);

} // namespace polyrank::runtime
