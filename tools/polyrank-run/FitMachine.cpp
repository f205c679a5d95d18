// Fits rates, the curve of products and the levels of links to measured times.

#include "tools/polyrank-run/FitMachine.h"

#include "compiler/cost/CommandTime.h"
#include "runtime/plan/CollectiveTime.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace polyrank::runtime {
namespace {

constexpr const char *measuredSource = "measured";

/// A number of the file. Four digits say more than a measurement knows.
MachineFile::Number numberOf(double value) {
  std::string text = fmt::format("{:.4g}", value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return {rounded, measuredSource};
}

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double geometricMeanOf(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += std::log(value);
  return std::exp(sum / double(values.size()));
}

double square(double value) { return value * value; }

/// Products of some elements, and their rate for a curve.
class ProductFit {
public:
  ProductFit(const std::vector<Measurements::Product> &all,
             double bytesPerSecond)
      : bytesPerSecond(bytesPerSecond) {
    for (const Measurements::Product &product : all)
      byElements[product.work.elements].push_back(product);
  }

  using Rates = std::map<ElementType, double>;

  static cost::CommandWork workOf(const ProductTrial &trial) {
    auto size = [](int64_t a, int64_t b, ElementType type) {
      return double(a) * double(b) * double(bytesOf(type));
    };
    double batch = double(trial.batch);
    return {trial.flops(),
            batch * (size(trial.m, trial.k, trial.elements) +
                     size(trial.k, trial.n, trial.elements) +
                     size(trial.m, trial.n, trial.result)),
            cost::Product{trial.batch, trial.m, trial.n, trial.k}};
  }

  double secondsOf(const ProductTrial &trial, double rate,
                   const cost::ProductCurve &curve) const {
    cost::DeviceRates rates{rate, bytesPerSecond};
    rates.products = curve;
    return 1e-12 * cost::getCommandTime(workOf(trial), rates);
  }

  /// The rates that fit best with the curve, and the sum of the squares of the
  /// logarithms by which times are off.
  double fit(const cost::ProductCurve &curve, Rates &rates) const {
    double sum = 0;
    for (const auto &[elements, products] : byElements) {
      // Each product says at which rate it would be met, were it not for bytes.
      double logarithm = 0;
      for (const Measurements::Product &product : products) {
        cost::CommandWork work = workOf(product.work);
        logarithm += std::log(work.flops * curve.getSlowdown(*work.product) /
                              product.seconds.least);
      }
      double rate = std::exp(logarithm / double(products.size()));
      rates[elements] = rate;
      for (const Measurements::Product &product : products)
        sum += square(std::log(secondsOf(product.work, rate, curve) /
                               product.seconds.least));
    }
    return sum;
  }

  /// For each size of tiles the best curve on a grid of elements and depths,
  /// and then in ever smaller steps around it; the best of them.
  std::pair<cost::ProductCurve, Rates> fitBest() const {
    cost::ProductCurve best;
    Rates rates;
    double least = HUGE_VAL;
    for (int64_t tile : {1, 2, 4, 8, 16, 32, 64}) {
      cost::ProductCurve own{tile};
      Rates tried;
      double leastOfTile = fit(own, tried);
      auto consider = [&](const cost::ProductCurve &curve) {
        if (double sum = fit(curve, tried); sum < leastOfTile)
          leastOfTile = sum, own = curve;
      };
      for (double elements = 0; elements <= 1 << 18;
           elements = elements == 0 ? 16 : 2 * elements)
        for (double depth = 0; depth <= 1024;
             depth = depth == 0 ? 1 : 2 * depth)
          consider({tile, elements / double(tile * tile), depth});
      for (double step : {1.3, 1.1, 1.03, 1.01})
        for (int turn = 0; turn < 4; ++turn)
          for (double factor : {step, 1 / step}) {
            cost::ProductCurve curve = own;
            curve.halfTiles *= factor;
            consider(curve);
            curve = own;
            curve.halfDepth *= factor;
            consider(curve);
          }
      if (leastOfTile < least)
        least = leastOfTile, best = own;
    }
    fit(best, rates);
    return {best, rates};
  }

private:
  double bytesPerSecond;
  std::map<ElementType, std::vector<Measurements::Product>> byElements;
};

/// "256 x 512 x 128", and how many of them.
std::string describe(const ProductTrial &work) {
  return fmt::format("{}{}{} x {} x {}{}",
                     work.batch == 1 ? "" : fmt::format("{} of ", work.batch),
                     work.m, work.transposeA ? " transposed" : "", work.n,
                     work.k, work.transposeB ? " transposed" : "");
}

void fitProducts(const Measurements &measured, double bytesPerSecond,
                 FittedMachine &fitted) {
  ProductFit fit(measured.products, bytesPerSecond);
  auto [curve, rates] = fit.fitBest();
  MachineFile &machine = fitted.machine;
  for (auto [elements, rate] : rates) {
    MachineFile::Number number = numberOf(rate / 1e9);
    if (elements == ElementType::F32)
      machine.f32 = number;
    else if (elements == ElementType::BF16)
      machine.bf16 = number;
    else
      machine.f16 = number;
    for (const Measurements::Product &product : measured.products)
      if (product.work.elements == elements)
        fitted.rows.push_back({fmt::format("{} products", nameOf(elements)),
                               describe(product.work), product.seconds.least,
                               fit.secondsOf(product.work, rate, curve)});
  }
  machine.products.emplace();
  machine.products->tile = numberOf(double(curve.tile));
  machine.products->halfTiles = numberOf(curve.halfTiles);
  machine.products->halfDepth = numberOf(curve.halfDepth);
}

/// The links of one node by one algorithm.
class LinkFit {
public:
  LinkFit(const Measurements &measured, CollectiveAlgorithm algorithm)
      : measured(measured) {
    level.algorithms = {algorithm};
    fitLatency();
    fitBandwidth();
  }

  LinkLevel level;

  double secondsOf(const Measurements::Collective &one) const {
    return secondsWith(one, level);
  }
  /// The sum of the squares of the logarithms by which times are off.
  double misfit() const {
    double sum = 0;
    for (const Measurements::Collective &one : measured.collectives)
      sum += square(std::log(secondsOf(one) / one.seconds.least));
    return sum;
  }

private:
  double secondsWith(const Measurements::Collective &one,
                     const LinkLevel &on) const {
    LinkLevels levels;
    levels.devices = measured.devices;
    levels.node = on;
    double sent = double(ruleOf(one.kind).rounds) * double(one.bytes) *
                  double(one.members - 1) / double(one.members);
    return 1e-12 * exactCollectiveTime(one.kind, GroupPlaces{one.members, 1},
                                       static_cast<uint64_t>(sent), levels);
  }
  /// Seconds for a link of one microsecond, and of one picosecond a byte.
  double latencies(const Measurements::Collective &one) const {
    LinkLevel unit{LinkTime{1e6, 0}, {}, level.algorithms};
    return secondsWith(one, unit);
  }
  double bytesSeconds(const Measurements::Collective &one) const {
    LinkLevel unit{LinkTime{0, 1}, {}, level.algorithms};
    return secondsWith(one, unit);
  }

  /// That of the smallest collectives, in which bytes hardly count.
  void fitLatency() {
    uint64_t least = UINT64_MAX;
    for (const Measurements::Collective &one : measured.collectives)
      least = std::min(least, one.bytes);
    std::vector<double> microseconds;
    for (const Measurements::Collective &one : measured.collectives)
      if (one.bytes < 2 * least)
        microseconds.push_back(one.seconds.least / latencies(one));
    level.link.latency = 1e6 * geometricMeanOf(microseconds);
  }

  /// For each size the time of a byte that is left of the measured times; the
  /// bandwidth is the largest one, and sizes have shares of it. A size of which
  /// latency explains nine tenths says nothing of bytes, unless it is the
  /// largest.
  void fitBandwidth() {
    struct Size {
      uint64_t bytes = 0;
      std::vector<double> perByte = {}; // picoseconds
      bool isLatency = false;           // of one of its times
    };
    // By the nearest power of two: a group whose size is none sends a little
    // less.
    std::map<long, Size> sizes;
    for (const Measurements::Collective &one : measured.collectives) {
      double left =
          one.seconds.least - latencies(one) * level.link.latency / 1e6;
      double known = 0.1 * one.seconds.least;
      Size &size = sizes[std::lround(std::log2(double(one.bytes)))];
      size.bytes = std::max(size.bytes, one.bytes);
      size.perByte.push_back(std::max(left, known) / bytesSeconds(one));
      size.isLatency |= left < known;
    }
    long largest = sizes.rbegin()->first;
    std::erase_if(sizes, [&](const auto &size) {
      return size.second.isLatency && size.first != largest;
    });
    level.link.perByte = HUGE_VAL;
    for (const auto &[unused, size] : sizes)
      level.link.perByte =
          std::min(level.link.perByte, geometricMeanOf(size.perByte));
    for (const auto &[unused, size] : sizes)
      level.reached.push_back(
          {double(size.bytes),
           level.link.perByte / geometricMeanOf(size.perByte)});
  }

  const Measurements &measured;
};

constexpr std::pair<CollectiveAlgorithm, const char *> algorithms[] = {
    {CollectiveAlgorithm::Halving, "halving"},
    {CollectiveAlgorithm::Ring, "ring"}};

void fitLinks(const Measurements &measured, FittedMachine &fitted) {
  MachineFile::Level &node = fitted.machine.node;
  if (measured.collectives.empty()) { // one device has no links
    node.latency = {0, "assumed"};
    node.bandwidth = fitted.machine.bandwidth;
    node.bandwidth.source = "assumed";
    return;
  }
  std::optional<LinkFit> best;
  const char *name = nullptr;
  for (auto [algorithm, text] : algorithms)
    if (LinkFit fit(measured, algorithm);
        !best || fit.misfit() < best->misfit())
      best.emplace(fit), name = text;
  const LinkLevel &level = best->level;
  node.latency = numberOf(level.link.latency / 1e6);
  node.bandwidth = numberOf(1e3 / level.link.perByte);
  node.algorithms = {name};
  for (const LinkLevel::Reached &reached : level.reached)
    node.reached.push_back({1e6 * numberOf(reached.bytes / 1e6).value,
                            std::min(1.0, numberOf(reached.share).value)});
  for (const Measurements::Collective &one : measured.collectives)
    fitted.rows.push_back(
        {"collectives",
         fmt::format("{} of {} bytes over {} ranks", runtime::nameOf(one.kind),
                     one.bytes, one.members),
         one.seconds.least, best->secondsOf(one)});
}

} // namespace

FittedMachine fitMachine(const Measurements &measured,
                         const std::string &name) {
  FittedMachine fitted;
  MachineFile &machine = fitted.machine;
  machine.name = name;
  std::vector<double> rates;
  for (const Measurements::Addition &addition : measured.additions)
    rates.push_back(addition.work.bytes() / addition.seconds.least);
  double bytesPerSecond = *std::max_element(rates.begin(), rates.end());
  machine.bandwidth = numberOf(bytesPerSecond / 1e9);
  machine.launch = numberOf(1e6 * measured.launch.least);
  machine.host = numberOf(1e6 * measured.host.least);
  machine.devices = numberOf(measured.devices);
  machine.nodes.value = 1;
  fitProducts(measured, bytesPerSecond, fitted);
  fitLinks(measured, fitted);
  return fitted;
}

double FitRow::error() const { return std::abs(planned / measured - 1); }

std::string describeErrors(const std::vector<FitRow> &rows) {
  std::string text;
  for (auto from = rows.begin(); from != rows.end();) {
    auto to = std::find_if(from, rows.end(), [&](const FitRow &row) {
      return row.group != from->group;
    });
    std::vector<double> errors;
    for (auto row = from; row != to; ++row)
      errors.push_back(row->error());
    auto worst =
        std::max_element(from, to, [](const FitRow &a, const FitRow &b) {
          return a.error() < b.error();
        });
    text +=
        fmt::format("{}: {} times, met to {:.0f} % in the median and {:.0f} "
                    "% at worst ({})\n",
                    from->group, errors.size(), 100 * medianOf(errors),
                    100 * worst->error(), worst->what);
    from = to;
  }
  return text;
}

std::string describeNoise(const Measurements &measured, double share) {
  std::vector<std::pair<std::string, std::vector<double>>> all;
  auto add = [&](const std::string &what, const Timing &timing) {
    auto at = std::find_if(all.begin(), all.end(),
                           [&](const auto &one) { return one.first == what; });
    if (at == all.end())
      at = all.insert(all.end(), {what, {}});
    at->second.push_back(timing.spread());
  };
  for (const Measurements::Product &product : measured.products)
    add(fmt::format("{} products", nameOf(product.work.elements)),
        product.seconds);
  for (const Measurements::Addition &addition : measured.additions)
    add("memory", addition.seconds);
  add("launches", measured.launch);
  add("the host", measured.host);
  for (const Measurements::Collective &one : measured.collectives)
    add(fmt::format("collectives of {} ranks", one.members), one.seconds);
  std::vector<std::string> noisy;
  for (const auto &[what, spreads] : all)
    if (double spread = medianOf(spreads); spread > share)
      noisy.push_back(fmt::format("{} {:.0f} %", what, 100 * spread));
  return fmt::format("{}", fmt::join(noisy, ", "));
}

} // namespace polyrank::runtime
