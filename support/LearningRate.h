// Learning-rate schedules, written as text: cosine(warmup=100,total=1000).
//
// The compiler checks the text and writes it into the plan; the runtime
// computes the rate of each step from it. docs/learning-rates.md lists all
// schedules with their options.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// A learning-rate schedule. Rates are computed in double, in the closed form
/// of PyTorch's scheduler and in the order of its operations, so that they are
/// equal after rounding to float.
class LearningRateSchedule {
public:
  /// A constant rate.
  LearningRateSchedule() = default;

  /// Parses `NAME` or `NAME(KEY=VALUE,..)`; "" is `constant`. An error says
  /// what is wrong and what is expected instead.
  static Result<LearningRateSchedule> parse(std::string_view text);
  static const std::vector<std::string> &getNames();

  /// The rate of step `step`, where 0 is the first update. `base` is the rate
  /// with which the schedule starts after its warm-up; for one_cycle it is the
  /// largest rate.
  double at(double base, uint64_t step) const;

  /// The number of steps of the schedule, including warm-up; later steps keep
  /// the last rate. 0: unlimited.
  uint64_t getTotal() const { return total; }

private:
  class Options;
  /// The rate of a step after the warm-up, counted from 0.
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
  double warmupStart = 0; // as a fraction of the base
};

/// The shortest text that parses to this number: 0.1, 1e-05.
std::string numberText(double value);

} // namespace polyrank
