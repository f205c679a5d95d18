// A constant whose expression is searched, and comparisons with it.

#pragma once

#include <vector>

#include "frontends/onnx/ExpressionSearch.h"

namespace polyrank::frontends::onnx {

/// The elements of a constant, with a sample of them that is compared first.
class SampledConstant {
public:
  /// Keeps a reference to `constant`.
  explicit SampledConstant(const SearchedConstant &constant);

  const StoredFloats &floats;
  llvm::ArrayRef<llvm::StringRef> operators;
  llvm::SmallVector<int64_t> samples; // indices of the sampled elements
  std::vector<int64_t> repeated;      // dims along which all slices are equal
  /// True if it has so many distinct elements that they identify its source.
  bool isTelling = false;

  /// Returns true if rounding of numbers of this magnitude explains the
  /// difference.
  bool gives(double expected, double value, double magnitude) const;

  double target(size_t sample) const { return floats.values[samples[sample]]; }

  /// Returns true if `value` gives the constant's element at each sample.
  bool agree(
      llvm::function_ref<double(size_t)> value,
      llvm::function_ref<double(size_t)> magnitude = [](size_t) {
        return 0.0;
      }) const;

  /// The factor by which `x` best gives `y` at the samples; 0 if none does.
  /// Among suitable factors, one with few digits is preferred.
  double factorOf(llvm::function_ref<double(size_t)> x,
                  llvm::function_ref<double(size_t)> y,
                  llvm::function_ref<double(size_t)> magnitude) const;

private:
  bool repeatsAlong(size_t dim) const;

  ElementType type;
};

} // namespace polyrank::frontends::onnx
