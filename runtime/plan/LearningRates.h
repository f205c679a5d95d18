// The learning rates of a run: those of the plan, or the user's overrides.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "support/LearningRate.h"

#include <optional>

namespace polyrank::runtime {

class LearningRates {
public:
  /// Returns the learning rates of a verified plan. `base` (--lr) replaces its
  /// learning rate, `schedule` (--lr-schedule; "" for none) its schedule.
  /// Either is an error if the plan has nothing that it would change.
  static Result<LearningRates> of(const plan::Plan &plan,
                                  std::optional<double> base = {},
                                  const std::string &schedule = "");

  /// Returns the value of a learning-rate argument in a step; the first step is
  /// 0.
  double at(const plan::Argument &argument, uint64_t step) const {
    return schedule.at(
        argument.relative() ? argument.rate() * base : argument.rate(), step);
  }
  /// The name in the log: lr, and for parameter groups lr(x0.1) or lr(1e-05).
  static std::string nameOf(const plan::Argument &argument);

  /// The number of steps that the schedule is made for; 0: any.
  uint64_t getTotal() const { return schedule.getTotal(); }

private:
  double base = 0;
  LearningRateSchedule schedule;
};

} // namespace polyrank::runtime
