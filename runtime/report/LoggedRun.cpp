// Reads logs into curves.

#include "runtime/report/LoggedRun.h"

#include "runtime/report/LogFile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace polyrank::runtime {
namespace {

using Curve = LoggedRun::Curve;
using nlohmann::json;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Returns the value of a metric; nothing if it is missing, NaN if it is null.
std::optional<double> numberIn(const json &record, const char *name) {
  auto found = record.find(name);
  if (found == record.end())
    return std::nullopt;
  return found->is_number() ? found->get<double>() : nan;
}

} // namespace

Curve thinned(const Curve &curve, double first, double last, int columns) {
  Curve result;
  double scale = columns / std::max(last - first, 1e-9);
  auto columnOf = [&](double step) {
    return std::floor((step - first) * scale);
  };
  for (size_t begin = 0, end; begin < curve.size(); begin = end) {
    double column = columnOf(curve[begin].first);
    std::vector<size_t> kept{begin};
    size_t least = begin, most = begin, hole = curve.size();
    for (end = begin;
         end < curve.size() && columnOf(curve[end].first) == column; ++end) {
      double value = curve[end].second;
      if (!std::isfinite(value)) {
        hole = std::min(hole, end);
        continue;
      }
      // Negated, since a comparison with NaN is false.
      if (!(curve[least].second <= value))
        least = end;
      if (!(curve[most].second >= value))
        most = end;
    }
    kept.insert(kept.end(), {least, most, end - 1});
    if (hole < curve.size())
      kept.push_back(hole);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    bool hasHole = false;
    for (size_t index : kept) {
      bool isHole = !std::isfinite(curve[index].second);
      if (!isHole || !hasHole)
        result.push_back(curve[index]);
      hasHole |= isHole;
    }
  }
  return result;
}

Curve smoothed(const Curve &curve, size_t window) {
  // Prefix sums and counts of the finite values.
  std::vector<double> sums{0}, counts{0};
  for (auto [step, value] : curve) {
    bool isFinite = std::isfinite(value);
    sums.push_back(sums.back() + (isFinite ? value : 0));
    counts.push_back(counts.back() + (isFinite ? 1 : 0));
  }
  Curve result;
  result.reserve(curve.size());
  for (size_t i = 0; i < curve.size(); ++i) {
    size_t half = std::min(window / 2, i), begin = i - half,
           end = std::min(i + half + 1, curve.size());
    result.emplace_back(curve[i].first, std::isfinite(curve[i].second)
                                            ? (sums[end] - sums[begin]) /
                                                  (counts[end] - counts[begin])
                                            : nan);
  }
  return result;
}

Result<LoggedRun> readLoggedRun(const std::string &path) {
  LoggedRun run;
  run.name = path.substr(path.rfind('/') + 1);
  bool started = false;
  Result<void> read = forEachRecord(path, [&](const json &record) {
    if (auto start = record.find("run");
        start != record.end() && start->is_object()) {
      run.plan = start->value("plan", std::string());
      run.mesh = start->value("mesh", std::string());
      if (std::exchange(started, true))
        run.resumed.push_back(start->value("first_step", uint64_t(1)));
    }
    std::optional<uint64_t> step = stepOfRecord(record);
    if (!step)
      return;
    auto at = static_cast<double>(*step);
    auto add = [&](Curve &curve, std::optional<double> value) {
      if (value)
        curve.emplace_back(at, *value);
    };
    if (auto eval = record.find("eval"); eval != record.end()) {
      std::optional<double> loss = numberIn(*eval, "eval_loss");
      add(run.evalLoss, loss ? loss : numberIn(*eval, "loss"));
      return;
    }
    if (!record.contains("step"))
      return;
    run.lastStep = *step;
    add(run.loss, numberIn(record, "loss"));
    add(run.learningRate, numberIn(record, "lr"));
    std::optional<double> tokens = numberIn(record, "tokens_per_second");
    run.speedIsOfTokens = tokens.has_value();
    add(run.speed, tokens ? tokens : numberIn(record, "samples_per_second"));
  });
  if (!read)
    return read.error();
  if (run.speed.empty())
    return Error{path + ": has no record of a step"};
  return run;
}

} // namespace polyrank::runtime
