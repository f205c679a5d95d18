// Learning-rate schedules: parsing and formulas.

#include "support/LearningRate.h"

#include "support/KeyValue.h"
#include "support/Names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

namespace polyrank {
namespace {

constexpr double pi = std::numbers::pi;
/// The largest step number that a double represents exactly.
constexpr int64_t maxSteps = int64_t(1) << 53;

std::string join(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// A rate that is given as a number, or as a fraction of the base (`x0.1`).
struct Rate {
  double value = 0;
  bool isRelative = false;

  double of(double base) const { return isRelative ? value * base : value; }
};

} // namespace

std::string numberText(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

/// The options of one schedule; each is taken once. The first error is kept.
class LearningRateSchedule::Options {
public:
  std::string name;
  std::vector<std::pair<std::string, std::string>> given;
  std::string error;
  uint64_t warmup = 0, total = 0;

  void fail(const std::string &text) {
    if (error.empty())
      error = name + ": " + text;
  }

  /// Takes a number of steps; it is required if there is no default.
  uint64_t takeSteps(const char *key, std::optional<uint64_t> otherwise,
                     const char *what, int64_t least = 1) {
    const std::string *text = find(key);
    if (!text) {
      if (!otherwise)
        fail("give " + std::string(key) + "=N, " + what);
      return otherwise.value_or(least);
    }
    std::optional<int64_t> number = integerOf(*text);
    if (!number || *number > maxSteps || *number < least)
      reject(key, *text,
             least ? "a number of steps, 1 or more" : "a number of steps");
    return number.value_or(least);
  }

  /// Takes a number that `holds` accepts.
  double takeNumber(const char *key, std::optional<double> otherwise,
                    const char *expected, bool (*holds)(double)) {
    const std::string *given = find(key);
    if (!given) {
      if (!otherwise)
        fail("give " + std::string(key) + "=X, " + expected);
      return otherwise.value_or(0);
    }
    std::string_view text = *given;
    // A fraction is allowed too: PyTorch's default of LinearLR is 1/3.
    size_t slash = text.find('/');
    auto number = numberOf(trim(text.substr(0, slash)));
    if (slash != text.npos && number) {
      auto divisor = numberOf(trim(text.substr(slash + 1)));
      number = divisor ? std::optional(*number / *divisor) : std::nullopt;
    }
    if (!number || !std::isfinite(*number) || !holds(*number))
      reject(key, *given, expected);
    return number.value_or(0);
  }

  /// Takes the lower bound of the rate.
  Rate takeMinimum() {
    const char *expected = "a rate, such as 1e-5, or a part of the base, as in "
                           "x0.1";
    const std::string *given = find("min");
    if (!given)
      return {};
    std::string_view text = *given;
    bool isRelative = text.starts_with("x");
    auto number = numberOf(text.substr(isRelative));
    if (!number || !std::isfinite(*number) || *number < 0)
      reject("min", *given, expected);
    return {number.value_or(0), isRelative};
  }

  std::string takeWord(const char *key, std::vector<std::string> words) {
    const std::string *text = find(key);
    if (!text)
      return words.front();
    if (std::find(words.begin(), words.end(), *text) == words.end())
      reject(key, *text, "one of " + join(words));
    return *text;
  }

  bool takeFlag(const char *key) {
    std::string word = takeWord(key, {"false", "true", "False", "True"});
    return word == "true" || word == "True";
  }

  /// Takes the number of all steps, including warm-up, and returns the number
  /// of steps after the warm-up.
  double takeTotal() {
    total = takeSteps("total", std::nullopt,
                      "the number of steps of the whole training");
    if (error.empty() && total <= warmup)
      fail("total=" + std::to_string(total) + " leaves no step after warmup=" +
           std::to_string(warmup) + "; it is the number of all steps");
    return static_cast<double>(total - std::min(total, warmup));
  }

  void finish() {
    std::vector<std::string> words = known;
    for (auto &[key, value] : given)
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("there is no option '" + key +
             "'; its options are: " + join(words) + nearestWords(key, words));
  }

private:
  const std::string *find(const char *key) {
    known.push_back(key);
    for (auto &[other, value] : given)
      if (other == key)
        return &value;
    return nullptr;
  }
  void reject(const std::string &key, const std::string &value,
              const std::string &expected) {
    fail("'" + key + "=" + value + "': expected " + expected);
  }

  std::vector<std::string> known;
};

using Curve = std::function<double(double, double)>;

static bool isPositive(double x) { return x > 0; }
static bool isNotNegative(double x) { return x >= 0; }
static bool isFraction(double x) { return x >= 0 && x <= 1; }

Curve LearningRateSchedule::makeConstant(Options &) { return {}; }

// LinearLR of torch.optim.lr_scheduler; from 1 to 0 it is transformers'
// get_linear_schedule_with_warmup.
Curve LearningRateSchedule::makeLinear(Options &options) {
  double last = options.takeTotal();
  auto takeFactor = [&](const char *key, double otherwise) {
    return options.takeNumber(key, otherwise, "a factor from 0 to 1",
                              isFraction);
  };
  double start = takeFactor("start", 1), end = takeFactor("end", 0);
  return [=](double base, double step) {
    return base * (start + (end - start) * std::min(last, step) / last);
  };
}

// PolynomialLR; with a minimum, transformers'
// get_polynomial_decay_schedule_with_warmup.
Curve LearningRateSchedule::makePolynomial(Options &options) {
  double last = options.takeTotal();
  double power = options.takeNumber("power", 1, "a number that is not negative",
                                    isNotNegative);
  Rate least = options.takeMinimum();
  return [=](double base, double step) {
    double end = least.of(base);
    return (base - end) * std::pow(1 - std::min(last, step) / last, power) +
           end;
  };
}

// CosineAnnealingLR; with `cycles`, transformers'
// get_cosine_schedule_with_warmup, which multiplies in another order.
Curve LearningRateSchedule::makeCosine(Options &options) {
  double last = options.takeTotal();
  Rate least = options.takeMinimum();
  constexpr double none = 0;
  double cycles = options.takeNumber(
      "cycles", none, "a number of waves, 0.5 for one way down", isPositive);
  return [=](double base, double step) {
    step = std::min(last, step);
    double angle =
        cycles == none ? pi * step / last : pi * cycles * 2 * (step / last);
    double end = least.of(base);
    return end + (base - end) * (1 + std::cos(angle)) / 2;
  };
}

// OneCycleLR. The base is its max_lr.
Curve LearningRateSchedule::makeOneCycle(Options &options) {
  double total = options.takeTotal();
  double rising =
      options.takeNumber("pct_start", 0.3, "a part from 0 to 1", isFraction);
  double first =
      options.takeNumber("div_factor", 25, "a number above 0", isPositive);
  double last = options.takeNumber("final_div_factor", 1e4, "a number above 0",
                                   isPositive);
  bool isLinear =
      options.takeWord("anneal_strategy", {"cos", "linear"}) == "linear";
  bool hasThree = options.takeFlag("three_phase");
  if (options.takeFlag("cycle_momentum"))
    options.fail("cycle_momentum=true: the momentum stays what the optimizer "
                 "says; leave it out");
  double top = rising * total - 1;
  if (top == 0)
    options.fail("pct_start is one step of " + numberText(total) +
                 ", which rises to nothing; make it longer, or 0");
  return [=](double base, double step) {
    auto anneal = [&](double from, double to, double part) {
      return isLinear ? (to - from) * part + from
                      : to + (from - to) / 2 * (std::cos(pi * part) + 1);
    };
    struct Phase {
      double end, from, to;
    };
    double low = base / first, lowest = low / last;
    Phase two[] = {{top, low, base}, {total - 1, base, lowest}};
    Phase three[] = {{top, low, base},
                     {2 * rising * total - 2, base, low},
                     {total - 1, low, lowest}};
    step = std::min(step, total - 1);
    double start = 0;
    const Phase *phase = hasThree ? three : two;
    for (const Phase *end = phase + (hasThree ? 2 : 1);
         phase != end && step > phase->end; ++phase)
      start = phase->end;
    return anneal(phase->from, phase->to,
                  (step - start) / (phase->end - start));
  };
}

// transformers' get_inverse_sqrt_schedule.
Curve LearningRateSchedule::makeInverseSqrt(Options &options) {
  uint64_t otherwise = options.warmup ? options.warmup : 10000;
  auto scale = static_cast<double>(options.takeSteps(
      "timescale", otherwise, "the steps after which the rate is 1/sqrt(2)"));
  return [=](double base, double step) {
    return base * (1 / std::sqrt((step + scale) / scale));
  };
}

// transformers' get_wsd_schedule: warm-up, stable, decay.
Curve LearningRateSchedule::makeWsd(Options &options) {
  double last = options.takeTotal();
  auto length = static_cast<double>(options.takeSteps(
      "decay", std::nullopt, "the last steps, in which the rate decays"));
  std::string type =
      options.takeWord("decay_type", {"cosine", "linear", "1-sqrt"});
  Rate least = options.takeMinimum();
  if (length > last)
    options.fail("decay=" + numberText(length) + " is more than the " +
                 numberText(last) + " steps after the warm-up");
  return [=](double base, double step) {
    double progress = std::clamp((step - (last - length)) / length, 0.0, 1.0);
    double factor = type == "linear"   ? 1 - progress
                    : type == "cosine" ? 0.5 * (1 + std::cos(pi * progress))
                                       : 1 - std::sqrt(progress);
    double end = least.of(base);
    return (base - end) * factor + end;
  };
}

// ExponentialLR.
Curve LearningRateSchedule::makeExponential(Options &options) {
  double gamma =
      options.takeNumber("gamma", std::nullopt,
                         "what each step multiplies the rate by", isPositive);
  return [=](double base, double step) { return base * std::pow(gamma, step); };
}

// StepLR.
Curve LearningRateSchedule::makeStep(Options &options) {
  auto size = static_cast<double>(options.takeSteps(
      "size", std::nullopt, "the steps from one drop of the rate to the next"));
  double gamma = options.takeNumber(
      "gamma", 0.1, "what each drop multiplies the rate by", isPositive);
  return [=](double base, double step) {
    return base * std::pow(gamma, std::floor(step / size));
  };
}

const std::vector<LearningRateSchedule::Kind> LearningRateSchedule::kinds{
    {"constant", makeConstant},
    {"linear", makeLinear},
    {"polynomial", makePolynomial},
    {"cosine", makeCosine},
    {"one_cycle", makeOneCycle},
    {"inverse_sqrt", makeInverseSqrt},
    {"wsd", makeWsd},
    {"exponential", makeExponential},
    {"step", makeStep}};

const std::vector<std::string> &LearningRateSchedule::getNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Kind &kind : kinds)
      list.push_back(kind.name);
    return list;
  }();
  return names;
}

Result<LearningRateSchedule>
LearningRateSchedule::parse(std::string_view text) {
  text = trim(text);
  if (text.empty())
    return LearningRateSchedule();
  Options options;
  size_t open = text.find('(');
  options.name = trim(text.substr(0, open));
  if (open != text.npos) {
    if (text.back() != ')')
      return Error{"the bracket behind '" + options.name + "' is not closed"};
    std::string_view list = text.substr(open + 1, text.size() - open - 2);
    while (!trim(list).empty()) {
      size_t comma = list.find(',');
      std::string_view entry = trim(list.substr(0, comma));
      list = comma == list.npos ? "" : list.substr(comma + 1);
      auto pair = parsePair(entry, {"KEY=VALUE", "total=1000"});
      if (!pair)
        return Error{options.name + ": " + pair.error().message};
      std::string key(pair->key);
      for (auto &[other, value] : options.given)
        if (other == key)
          return Error{options.name + ": '" + key + "' is given twice"};
      options.given.emplace_back(key, pair->value);
    }
  }
  auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind &kind) {
    return options.name == kind.name;
  });
  if (kind == kinds.end())
    return Error{"there is no schedule '" + options.name + "'; there are: " +
                 join(getNames()) + nearestWords(options.name, getNames())};
  LearningRateSchedule schedule;
  options.warmup = schedule.warmup =
      options.takeSteps("warmup", 0, "the steps of warm-up", 0);
  schedule.warmupStart = options.takeNumber(
      "warmup_start", 0, "a factor from 0 to 1, of the first step", isFraction);
  schedule.curve = kind->make(options);
  schedule.total = options.total;
  options.finish();
  if (!options.error.empty())
    return Error{options.error};
  return schedule;
}

double LearningRateSchedule::at(double base, uint64_t step) const {
  if (step < warmup) // as LinearLR that comes first in a SequentialLR
    return base * (warmupStart + (1 - warmupStart) * static_cast<double>(step) /
                                     static_cast<double>(warmup));
  return curve ? curve(base, static_cast<double>(step - warmup)) : base;
}

} // namespace polyrank
