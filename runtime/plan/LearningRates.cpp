// The learning rates of a run, from plan and options.

#include "runtime/plan/LearningRates.h"

#include <cmath>
#include <fmt/format.h>

namespace polyrank::runtime {

Result<LearningRates> LearningRates::of(const plan::Plan &plan,
                                        std::optional<double> base,
                                        const std::string &schedule) {
  if (plan.mode() != plan::Mode::Train && (base || !schedule.empty()))
    return Error{fmt::format("{} is for training plans; a forward plan changes "
                             "no weights",
                             base ? "--lr" : "--lr-schedule")};
  LearningRates rates;
  rates.base = base.value_or(plan.learning_rate());
  bool hasBase = false;
  for (const plan::Program *program : *plan.programs())
    for (const plan::Argument *argument : *program->arguments())
      hasBase |=
          argument->role() == plan::Role::LearningRate && argument->relative();
  if (base && !hasBase)
    return Error{fmt::format("--lr {}: each group of the plan has a learning "
                             "rate of its own; compile it with groups whose lr "
                             "is relative, as in lr=x0.1",
                             *base)};
  if (base && !(std::isfinite(*base) && *base >= 0))
    return Error{
        fmt::format("--lr {}: must be a number that is not negative", *base)};
  std::string text = !schedule.empty()    ? schedule
                     : plan.lr_schedule() ? plan.lr_schedule()->str()
                                          : "";
  Result<LearningRateSchedule> parsed = LearningRateSchedule::parse(text);
  if (!parsed)
    return Error{
        fmt::format("--lr-schedule '{}': {}", text, parsed.error().message)};
  rates.schedule = *std::move(parsed);
  return rates;
}

std::string LearningRates::nameOf(const plan::Argument &argument) {
  if (!argument.relative())
    return "lr(" + numberText(argument.rate()) + ")";
  return argument.rate() == 1 ? "lr"
                              : "lr(x" + numberText(argument.rate()) + ")";
}

} // namespace polyrank::runtime
