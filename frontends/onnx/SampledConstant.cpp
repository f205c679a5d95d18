// A constant whose expression is searched, and comparisons with it.

#include "frontends/onnx/SampledConstant.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace polyrank::frontends::onnx {

/// The number of elements that are compared first.
static constexpr int64_t mostSamples = 32;
/// A constant with fewer distinct elements tells little about its source.
static constexpr size_t fewElements = 4;

/// Half a unit in the last place of 1; a float64 is compared as a float32.
static double epsilonOf(ElementType type) {
  return std::ldexp(
      1, -std::min(rowOf(type).digits, rowOf(ElementType::F32).digits));
}

SampledConstant::SampledConstant(const SearchedConstant &constant)
    : floats(constant.floats), operators(constant.operators),
      type(constant.type) {
  int64_t count = floats.values.size();
  int64_t step = std::max<int64_t>(count / mostSamples, 1);
  for (int64_t i = 0; i < count && samples.size() < mostSamples; i += step)
    samples.push_back(i + (i / step) % step);
  std::set<float> different;
  for (float value : floats.values)
    if (different.insert(value).second && different.size() == fewElements)
      break;
  isTelling = different.size() == fewElements;
  for (size_t dim = 0; dim < floats.dims.size(); ++dim)
    if (repeatsAlong(dim))
      repeated.push_back(dim);
}

bool SampledConstant::repeatsAlong(size_t dim) const {
  int64_t size = floats.dims[dim], inner = 1;
  for (size_t i = dim + 1; i < floats.dims.size(); ++i)
    inner *= floats.dims[i];
  if (size == 1)
    return false;
  for (int64_t i = 0, n = floats.values.size(); i < n; ++i)
    if (i / inner % size != 0 && floats.values[i] != floats.values[i - inner])
      return false;
  return true;
}

bool SampledConstant::gives(double expected, double value,
                            double magnitude) const {
  return std::fabs(expected - value) <=
         4 * epsilonOf(type) * std::max(std::fabs(expected), magnitude);
}

bool SampledConstant::agree(function_ref<double(size_t)> value,
                            function_ref<double(size_t)> magnitude) const {
  for (size_t i = 0; i < samples.size(); ++i)
    if (!gives(floats.values[samples[i]], value(i), magnitude(i)))
      return false;
  return true;
}

double SampledConstant::factorOf(function_ref<double(size_t)> x,
                                 function_ref<double(size_t)> y,
                                 function_ref<double(size_t)> magnitude) const {
  double xx = 0, xy = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    xx += x(i) * x(i);
    xy += x(i) * y(i);
  }
  if (xx == 0 || !std::isfinite(xy / xx))
    return 0;
  double factor = xy / xx;
  auto fits = [&](double factor) {
    for (size_t i = 0; i < samples.size(); ++i)
      if (!gives(y(i), factor * x(i), magnitude(i)))
        return false;
    return true;
  };
  for (double digits = 1; digits <= 1e5; digits *= 10) {
    double scale =
        digits * std::pow(10, -std::floor(std::log10(std::fabs(factor))));
    double rounded = std::round(factor * scale) / scale;
    if (fits(rounded))
      return rounded;
  }
  return fits(factor) ? factor : 0;
}

} // namespace polyrank::frontends::onnx
