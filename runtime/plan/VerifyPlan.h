// Proves, before anything of a plan is used, that no command of it can touch
// memory outside the arena.

#pragma once

#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanTargets.h"
#include "runtime/plan/plan_generated.h"
#include "support/Result.h"

namespace polyrank::runtime {

/// Verifies the flatbuffer and all its contents: enums, mesh and axes,
/// arguments against their views, layouts and buffers, every command's operands
/// against the buffers it names in every microbatch, groups, images of kernels
/// and schedule. If there are several programs, also that each rank has one,
/// that every send has its receive, and that no deadlock keeps a step from
/// ending. All sizes are computed with overflow checks. After success the
/// accessors of the returned plan may be used without further tests. The plan
/// may be for `targets`.
///
/// The kernels are native code and are not verified: run only what you
/// compiled.
Result<const plan::Plan *>
verifyPlan(std::span<const uint8_t> flatbuffer,
           std::span<const PlanTarget> targets = planTargets());

/// A plan file that was read and verified.
struct LoadedPlan {
  PlanBytes bytes;
  const plan::Plan *plan = nullptr;
  std::string path;

  uint32_t programs() const { return plan->programs()->size(); }
  const plan::Program &program(uint32_t number = 0) const {
    return *plan->programs()->Get(number);
  }
};

Result<LoadedPlan> loadPlan(const std::string &path);
Result<LoadedPlan> loadPlan(int descriptor, const std::string &path);

} // namespace polyrank::runtime
