// Draws curves of logs.

#include "runtime/report/LogSvg.h"

#include "support/Svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace polyrank::runtime {
namespace {

using Curve = LoggedRun::Curve;

constexpr double left = 84, right = 28, width = 1000, gap = 46, top = 74,
                 plotWidth = width - left - right;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Colours that colour-blind people can tell apart (Okabe and Ito's palette);
/// the patterns tell the curves apart in grey.
struct Look {
  const char *colour, *dashes;
};
constexpr Look looks[] = {{"#0072b2", ""},    {"#d55e00", "7 3"},
                          {"#009e73", "2 2"}, {"#cc79a7", "9 3 2 3"},
                          {"#000000", "4 4"}, {"#e69f00", "12 4"},
                          {"#56b4e9", "2 5"}, {"#777777", "9 3 2 3 2 3"}};

/// Returns 1, 2 or 5 times a power of ten, about a `parts`-th of the range.
double tickOf(double range, int parts) {
  double rough = range / parts,
         power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1, 2, 5})
    if (factor * power >= rough)
      return factor * power;
  return 10 * power;
}

/// Returns "1.23M" for 1234567.8; small numbers are not shortened.
std::string shortNumber(double value) {
  double size = std::fabs(value);
  if (size >= 1e9)
    return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6)
    return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4)
    return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

/// One plot: its place in the picture, and the ranges of its axes.
struct Panel {
  double y, height;
  double first, last; // steps
  double least = std::numeric_limits<double>::infinity(), most = -least;
  bool isLogarithmic = false;

  void cover(const Curve &curve) {
    for (auto [step, value] : curve)
      if (std::isfinite(value)) {
        least = std::min(least, value);
        most = std::max(most, value);
      }
  }
  /// To be called after all curves have been covered.
  void settle(bool fromZero, bool mayBeLogarithmic) {
    if (least > most)
      least = 0, most = 1;
    isLogarithmic = mayBeLogarithmic && least > 0 && most > 50 * least;
    if (isLogarithmic) {
      double margin = std::pow(most / least, 0.05);
      least /= margin, most *= margin;
      return;
    }
    if (fromZero)
      least = std::min(least, 0.0);
    double margin = most > least ? 0.06 * (most - least)
                                 : std::max(0.05 * std::fabs(most), 1e-9);
    if (!fromZero || least < 0)
      least -= margin;
    most += margin;
  }
  double xOf(double step) const {
    return left + plotWidth * (step - first) / (last - first);
  }
  double yOf(double value) const {
    double part = isLogarithmic
                      ? std::log(value / least) / std::log(most / least)
                      : (value - least) / (most - least);
    return y + height * (1 - part);
  }
  std::vector<double> ticks() const {
    std::vector<double> values;
    if (isLogarithmic) {
      for (double power = std::pow(10, std::floor(std::log10(least)));
           power <= most; power *= 10)
        for (double factor : {1, 2, 5})
          if (double value = factor * power;
              value >= least && value <= most &&
              (factor == 1 || most / least < 1000))
            values.push_back(value);
      return values;
    }
    double tick = tickOf(most - least, height > 200 ? 6 : 4);
    for (double n = std::ceil(least / tick); n * tick <= most; ++n)
      values.push_back(n * tick);
    return values;
  }
};

class Picture {
public:
  explicit Picture(const std::vector<LoggedRun> &runs)
      : runs(runs), svg(width, heightOf(runs), titleOf(runs)) {
    first = std::numeric_limits<double>::infinity(), last = -first;
    for (const LoggedRun &run : runs)
      for (const Curve *curve :
           {&run.loss, &run.evalLoss, &run.learningRate, &run.speed})
        if (!curve->empty()) {
          first = std::min(first, curve->front().first);
          last = std::max(last, curve->back().first);
        }
    if (first == last) // one step has room on both sides
      first -= 1, last += 1;
  }

  std::string draw() {
    svg.text(left, 24, titleOf(runs), 16, Svg::Anchor::Start, true);
    drawLegend();
    double y = top + legendHeight(runs);
    if (hasLoss(runs)) {
      drawLoss(y);
      y += lossHeight + gap;
    }
    if (hasRate(runs)) {
      Panel panel = panelAt(y, rateHeight);
      for (const LoggedRun &run : runs)
        panel.cover(run.learningRate);
      panel.settle(true, false);
      frame(panel, "learning rate");
      for (size_t n = 0; n < runs.size(); ++n)
        trace(panel, runs[n].learningRate,
              {lookOf(n).colour, 1.6, lookOf(n).dashes});
      y += rateHeight + gap;
    }
    drawSpeed(y);
    svg.text(left + plotWidth / 2, y + speedHeight + 34, "step", 12,
             Svg::Anchor::Middle);
    return svg.finish();
  }

private:
  static constexpr double lossHeight = 330, rateHeight = 96, speedHeight = 130;

  static bool hasLoss(const std::vector<LoggedRun> &runs) {
    return std::any_of(runs.begin(), runs.end(), [](const LoggedRun &run) {
      return !run.loss.empty() || !run.evalLoss.empty();
    });
  }
  static bool hasRate(const std::vector<LoggedRun> &runs) {
    return std::any_of(runs.begin(), runs.end(), [](const LoggedRun &run) {
      return !run.learningRate.empty();
    });
  }
  static double legendHeight(const std::vector<LoggedRun> &runs) {
    return 17 * static_cast<double>(runs.size() + (runs.size() == 1 ? 0 : 1));
  }
  static double heightOf(const std::vector<LoggedRun> &runs) {
    return top + legendHeight(runs) + (hasLoss(runs) ? lossHeight + gap : 0) +
           (hasRate(runs) ? rateHeight + gap : 0) + speedHeight + 48;
  }
  static std::string titleOf(const std::vector<LoggedRun> &runs) {
    return runs.size() == 1 ? "Training: " + runs[0].name
                            : fmt::format("Training: {} runs", runs.size());
  }
  static const Look &lookOf(size_t number) {
    return looks[number % std::size(looks)];
  }
  bool isAlone() const { return runs.size() == 1; }

  Panel panelAt(double y, double height) const {
    return Panel{y, height, first, last};
  }

  /// The number of steps of a mean: about a fiftieth of a run. 0 if the run is
  /// too short.
  static size_t windowOf(const Curve &curve) {
    return curve.size() < 30 ? 0 : std::max<size_t>(5, curve.size() / 50);
  }

  static std::string wordsOf(const LoggedRun &run) {
    std::string text = fmt::format("to step {}", run.lastStep);
    auto lastOf = [](const Curve &curve) {
      auto found = std::find_if(curve.rbegin(), curve.rend(), [](auto &point) {
        return std::isfinite(point.second);
      });
      return found == curve.rend() ? nan : found->second;
    };
    Curve mean = windowOf(run.loss) > 0 ? smoothed(run.loss, windowOf(run.loss))
                                        : run.loss;
    if (double loss = lastOf(mean); std::isfinite(loss))
      text += fmt::format(", loss {:.4g}", loss);
    if (double loss = lastOf(run.evalLoss); std::isfinite(loss))
      text += fmt::format(", evaluated {:.4g}", loss);
    if (!run.plan.empty())
      text += ", " + run.plan.substr(run.plan.rfind('/') + 1);
    if (!run.mesh.empty())
      text += fmt::format(" ({})", run.mesh);
    return text;
  }

  void drawLegend() {
    double y = 46;
    for (size_t n = 0; n < runs.size(); ++n, y += 17) {
      const Look &look = lookOf(n);
      if (isAlone()) {
        svg.text(left, y, wordsOf(runs[n]), 12);
        continue;
      }
      svg.polyline({{left, y - 4}, {left + 40, y - 4}},
                   {look.colour, 2, look.dashes});
      svg.text(left + 48, y, runs[n].name, 12, Svg::Anchor::Start, true);
      svg.text(left + 60 + 7.2 * static_cast<double>(runs[n].name.size()), y,
               wordsOf(runs[n]), 12);
    }
    // The legend of the kinds of lines.
    const LoggedRun &run = runs[0];
    double x = left;
    size_t window = windowOf(run.loss);
    auto sample = [&](const Svg::Pen &pen, bool dotted,
                      const std::string &text) {
      svg.polyline({{x, y - 4}, {x + 28, y - 4}}, pen);
      if (dotted)
        svg.dot(x + 14, y - 4, 3, {"white", pen.colour});
      svg.text(x + 34, y, text, 11);
      x += 48 + 6.2 * static_cast<double>(text.size());
    };
    if (isAlone() && window > 0)
      sample({"#8fb8d6", 1}, false, "each step");
    if (isAlone())
      sample({looks[0].colour, 2}, false,
             window > 0 ? fmt::format("moving mean of {} steps", window)
                        : "each step");
    else
      svg.text(left, y,
               "moving means over a fiftieth of each run; circles: evaluations",
               11);
    if (isAlone() && !run.evalLoss.empty())
      sample({"#333333", 1}, true, "evaluation");
  }

  void frame(const Panel &panel, const std::string &title) {
    svg.rectangle(left, panel.y, plotWidth, panel.height, {"#fafafa", "none"});
    for (double value : panel.ticks()) {
      double y = panel.yOf(value);
      svg.line(left, y, left + plotWidth, y, "#dddddd");
      svg.text(left - 6, y + 4,
               shortNumber(std::fabs(value) < 1e-12 ? 0 : value), 11,
               Svg::Anchor::End);
    }
    double tick = std::max(1.0, tickOf(last - first, 8));
    for (double n = std::ceil(first / tick); n * tick <= last; ++n) {
      double x = panel.xOf(n * tick);
      svg.line(x, panel.y, x, panel.y + panel.height, "#eeeeee");
      svg.text(x, panel.y + panel.height + 15, fmt::format("{:.0f}", n * tick),
               11, Svg::Anchor::Middle);
    }
    svg.rectangle(left, panel.y, plotWidth, panel.height, {"none", "#888888"});
    svg.text(left, panel.y - 7,
             title + (panel.isLogarithmic ? " (logarithmic)" : ""), 12,
             Svg::Anchor::Start, true);
    if (!isAlone())
      return;
    for (uint64_t step : runs[0].resumed) {
      double x = panel.xOf(static_cast<double>(step));
      svg.line(x, panel.y, x, panel.y + panel.height, "#777777", true);
      svg.text(x + 4, panel.y + panel.height - 6, "resumed", 10);
    }
  }

  /// Draws a line through the finite points, or dots if there are few points or
  /// a point has no neighbour.
  void trace(const Panel &panel, const Curve &curve, const Svg::Pen &pen) {
    bool isFew = curve.size() <= 40;
    Curve part;
    auto flush = [&] {
      for (auto &[x, y] : part)
        if (isFew || part.size() == 1)
          svg.dot(x, y, 2.2, {pen.colour, "none", pen.opacity});
      if (part.size() > 1)
        svg.polyline(part, pen);
      part.clear();
    };
    for (auto [step, value] :
         thinned(curve, first, last, static_cast<int>(plotWidth)))
      if (std::isfinite(value))
        part.emplace_back(panel.xOf(step), panel.yOf(value));
      else
        flush();
    flush();
  }

  void drawLoss(double y) {
    Panel panel = panelAt(y, lossHeight);
    std::vector<Curve> means;
    for (const LoggedRun &run : runs) {
      size_t window = windowOf(run.loss);
      means.push_back(window > 0 ? smoothed(run.loss, window) : run.loss);
      panel.cover(isAlone() ? run.loss : means.back());
      panel.cover(run.evalLoss);
    }
    panel.settle(false, true);
    frame(panel, "loss");
    std::string missing;
    for (size_t n = 0; n < runs.size(); ++n) {
      const LoggedRun &run = runs[n];
      const Look &look = lookOf(n);
      if (isAlone() && windowOf(run.loss) > 0)
        trace(panel, run.loss, {"#8fb8d6", 0.8});
      trace(panel, means[n], {look.colour, 2, look.dashes});
      const char *colour = isAlone() ? "#333333" : look.colour;
      trace(panel, run.evalLoss, {colour, 1});
      for (auto [step, value] :
           thinned(run.evalLoss, first, last, static_cast<int>(plotWidth / 12)))
        if (std::isfinite(value))
          svg.dot(panel.xOf(step), panel.yOf(value), 3, {"white", colour});
      markNotFinite(panel, run.loss, missing);
    }
    if (!missing.empty())
      svg.text(left + plotWidth, panel.y - 7, missing, 11, Svg::Anchor::End);
  }

  /// Draws a cross at the upper edge for each column of pixels with a
  /// non-finite loss.
  void markNotFinite(const Panel &panel, const Curve &loss,
                     std::string &missing) {
    uint64_t count = 0;
    double firstStep = 0, drawn = -10;
    for (auto [step, value] : loss) {
      if (std::isfinite(value))
        continue;
      if (count++ == 0)
        firstStep = step;
      double x = panel.xOf(step), y = panel.y + 6;
      if (x < drawn + 4)
        continue;
      drawn = x;
      svg.line(x - 3, y - 3, x + 3, y + 3, "#b00000");
      svg.line(x - 3, y + 3, x + 3, y - 3, "#b00000");
    }
    if (count == 1)
      missing = fmt::format("× not finite in step {:.0f}", firstStep);
    else if (count > 1)
      missing = fmt::format("× not finite in {} steps, the first {:.0f}", count,
                            firstStep);
  }

  void drawSpeed(double y) {
    Panel panel = panelAt(y, speedHeight);
    bool ofTokens =
        std::all_of(runs.begin(), runs.end(),
                    [](const LoggedRun &run) { return run.speedIsOfTokens; });
    std::vector<Curve> means;
    for (const LoggedRun &run : runs) {
      size_t window = windowOf(run.speed);
      means.push_back(window > 0 ? smoothed(run.speed, window) : run.speed);
      panel.cover(isAlone() ? run.speed : means.back());
    }
    panel.settle(true, false);
    frame(panel, ofTokens ? "tokens per second" : "samples per second");
    for (size_t n = 0; n < runs.size(); ++n) {
      if (isAlone() && windowOf(runs[n].speed) > 0)
        trace(panel, runs[n].speed, {"#8fb8d6", 0.8});
      trace(panel, means[n], {lookOf(n).colour, 2, lookOf(n).dashes});
    }
  }

  const std::vector<LoggedRun> &runs;
  Svg svg;
  double first, last; // steps
};

} // namespace

std::string logSvg(const std::vector<LoggedRun> &runs) {
  return Picture(runs).draw();
}

} // namespace polyrank::runtime
