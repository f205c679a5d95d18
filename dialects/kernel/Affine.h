// Index arithmetic of kernels: affine functions of loop variables.

#pragma once

#include <cstdint>
#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::kernel {

/// constant + sum_v coefficients[v] * v, over variables v in [0, size of v).
struct Affine {
  int64_t constant = 0;
  llvm::SmallVector<int64_t, 6> coefficients;

  Affine() = default;
  Affine(size_t numVariables, int64_t constant = 0)
      : constant(constant), coefficients(numVariables, 0) {}
  static Affine variable(size_t numVariables, size_t index);

  bool isConstant() const;
  /// The variable if this is just one variable with coefficient 1.
  std::optional<size_t> asVariable() const;
  /// The largest and smallest value.
  int64_t maximum(llvm::ArrayRef<int64_t> sizes) const;
  int64_t minimum(llvm::ArrayRef<int64_t> sizes) const;

  Affine &operator+=(const Affine &other);
  Affine operator+(const Affine &other) const;
  Affine operator+(int64_t offset) const;
  Affine operator*(int64_t factor) const;
  bool operator==(const Affine &other) const = default;
};

/// A variable must be split into a major part and a minor one of size `minor`
/// before an expression can be divided.
struct VariableSplit {
  size_t variable;
  int64_t minor;
};

/// Computes quotient = expression / divisor and remainder = expression %
/// divisor if both are linear. Otherwise fails, and `split` names the split of
/// a variable that helps, if there is one.
bool divide(const Affine &expression, int64_t divisor,
            llvm::ArrayRef<int64_t> sizes, Affine &quotient, Affine &remainder,
            std::optional<VariableSplit> &split);

/// Returns true if offset is a bijection from the points of the variables that
/// it mentions to [0, count).
bool isDense(const Affine &offset, llvm::ArrayRef<int64_t> sizes,
             int64_t count);

} // namespace polyrank::kernel
