// A constant whose expression is searched for, and whether numbers are its.

#pragma once

#include <vector>

#include "frontends/onnx/ExpressionSearch.h"

namespace polyrank::frontends::onnx {

/// The elements of a constant, some of which are compared first.
class SampledConstant {
public:
  /// Refers to `constant`.
  explicit SampledConstant(const SearchedConstant &constant);

  const StoredFloats &floats;
  llvm::ArrayRef<llvm::StringRef> operators;
  llvm::SmallVector<int64_t> samples; // the numbers of those elements
  std::vector<int64_t> repeated;      // dims along which all slices are equal
  /// Whether it has so many different elements that these say where it is from.
  bool isTelling = false;

  /// Whether rounding explains the difference, of numbers of this magnitude.
  bool gives(double expected, double value, double magnitude) const;

  double target(size_t sample) const { return floats.values[samples[sample]]; }

  /// At the samples, `value` of each gives the constant's.
  bool agree(
      llvm::function_ref<double(size_t)> value,
      llvm::function_ref<double(size_t)> magnitude = [](size_t) {
        return 0.0;
      }) const;

  /// The factor with which `x` gives `y` best at the samples; 0 where none
  /// does. Of numbers that do, one of few digits.
  double factorOf(llvm::function_ref<double(size_t)> x,
                  llvm::function_ref<double(size_t)> y,
                  llvm::function_ref<double(size_t)> magnitude) const;

private:
  bool repeatsAlong(size_t dim) const;

  DataType type;
};

} // namespace polyrank::frontends::onnx
