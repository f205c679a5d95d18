// The learning rates of a run: what the plan says, or the user instead of it.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "support/LearningRate.h"

#include <optional>

namespace polyrank::runtime {

class LearningRates {
public:
  /// Of a verified plan. `base` (--lr) replaces its learning rate, `schedule`
  /// (--lr-schedule; "" : none) its schedule; each is an error where the plan
  /// has nothing that it would change.
  static Result<LearningRates> of(const plan::Plan &plan,
                                  std::optional<double> base = {},
                                  const std::string &schedule = "");

  /// Of an argument that is one, in a step; the first is 0.
  double at(const plan::Argument &argument, uint64_t step) const {
    return schedule.at(
        argument.relative() ? argument.rate() * base : argument.rate(), step);
  }
  /// What the log calls it: lr, and of groups lr(x0.1) or lr(1e-05).
  static std::string nameOf(const plan::Argument &argument);

  /// The steps that the schedule is for; 0: any number.
  uint64_t getTotal() const { return schedule.getTotal(); }

private:
  double base = 0;
  LearningRateSchedule schedule;
};

} // namespace polyrank::runtime
