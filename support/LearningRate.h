// The learning rate of each step, as text: cosine(warmup=100,total=1000).
//
// The compiler checks the text and writes it into the plan, the runtime
// computes the rate of each step from it. docs/learning-rates.md has all
// schedules with their options.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// How a learning rate depends on the step. Rates are computed in double, in
/// the closed form of PyTorch's scheduler and in the order of its operations,
/// so that they are the same numbers once they are floats.
class LearningRateSchedule {
public:
  /// The rate always is its base.
  LearningRateSchedule() = default;

  /// `NAME` or `NAME(KEY=VALUE,..)`; "" is `constant`. Fails with what is
  /// wrong, and what is expected instead.
  static Result<LearningRateSchedule> parse(std::string_view text);
  static const std::vector<std::string> &getNames();

  /// The rate of step `step`, which is 0 for the first update, where its base
  /// is `base`: what the schedule begins with behind its warm-up, and of
  /// one_cycle the largest.
  double at(double base, uint64_t step) const;

  /// The steps that the schedule is for, with its warm-up. The rate of all
  /// later ones is the last one's. 0: it goes on for ever.
  uint64_t getTotal() const { return total; }

private:
  class Options;
  /// The rate of a step behind the warm-up, the first of which is 0.
  using Curve = std::function<double(double base, double step)>;
  using Maker = Curve (*)(Options &options);
  static Curve makeConstant(Options &options);
  static Curve makeLinear(Options &options);
  static Curve makePolynomial(Options &options);
  static Curve makeCosine(Options &options);
  static Curve makeOneCycle(Options &options);
  static Curve makeInverseSqrt(Options &options);
  static Curve makeWsd(Options &options);
  static Curve makeExponential(Options &options);
  static Curve makeStep(Options &options);

  struct Kind {
    const char *name;
    Maker make;
  };
  static const std::vector<Kind> kinds;

  Curve curve;
  uint64_t warmup = 0, total = 0;
  double warmupStart = 0; // times the base
};

/// The shortest text that is this number when it is read: 0.1, 1e-05.
std::string numberText(double value);

} // namespace polyrank
