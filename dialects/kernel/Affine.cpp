// Index arithmetic of kernels.

#include "dialects/kernel/Affine.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace polyrank::kernel;

Affine Affine::variable(size_t numVariables, size_t index) {
  Affine result(numVariables);
  result.coefficients[index] = 1;
  return result;
}

bool Affine::isConstant() const {
  return llvm::all_of(coefficients, [](int64_t c) { return c == 0; });
}

std::optional<size_t> Affine::asVariable() const {
  std::optional<size_t> found;
  for (auto [v, c] : llvm::enumerate(coefficients)) {
    if (c == 0)
      continue;
    if (c != 1 || found)
      return std::nullopt;
    found = v;
  }
  return constant == 0 ? found : std::nullopt;
}

int64_t Affine::maximum(llvm::ArrayRef<int64_t> sizes) const {
  int64_t result = constant;
  for (auto [c, size] : llvm::zip_equal(coefficients, sizes))
    result += c > 0 ? c * (size - 1) : 0;
  return result;
}

int64_t Affine::minimum(llvm::ArrayRef<int64_t> sizes) const {
  int64_t result = constant;
  for (auto [c, size] : llvm::zip_equal(coefficients, sizes))
    result += c < 0 ? c * (size - 1) : 0;
  return result;
}

Affine &Affine::operator+=(const Affine &other) {
  constant += other.constant;
  for (auto [c, d] : llvm::zip_equal(coefficients, other.coefficients))
    c += d;
  return *this;
}

Affine Affine::operator+(const Affine &other) const {
  Affine result = *this;
  return result += other;
}

Affine Affine::operator+(int64_t offset) const {
  Affine result = *this;
  result.constant += offset;
  return result;
}

Affine Affine::operator*(int64_t factor) const {
  Affine result = *this;
  result.constant *= factor;
  for (int64_t &c : result.coefficients)
    c *= factor;
  return result;
}

bool polyrank::kernel::divide(const Affine &expression, int64_t divisor,
                              llvm::ArrayRef<int64_t> sizes, Affine &quotient,
                              Affine &remainder,
                              std::optional<VariableSplit> &split) {
  quotient = remainder = Affine(sizes.size());
  for (auto [v, c] : llvm::enumerate(expression.coefficients)) {
    if (c == 0)
      continue;
    if (c % divisor == 0) {
      quotient.coefficients[v] = c / divisor;
      continue;
    }
    if (c > 0 && c * (sizes[v] - 1) >= divisor) {
      int64_t minor = divisor / c;
      if (divisor % c == 0 && sizes[v] % minor == 0)
        split = VariableSplit{v, minor};
      return false;
    }
    remainder.coefficients[v] = c;
  }
  quotient.constant = llvm::divideFloorSigned(expression.constant, divisor);
  remainder.constant = expression.constant - quotient.constant * divisor;
  return remainder.minimum(sizes) >= 0 && remainder.maximum(sizes) < divisor;
}

bool polyrank::kernel::isDense(const Affine &offset,
                               llvm::ArrayRef<int64_t> sizes, int64_t count) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> terms;
  for (auto [c, size] : llvm::zip_equal(offset.coefficients, sizes))
    if (c != 0)
      terms.push_back({c, size});
  llvm::sort(terms);
  int64_t stride = 1;
  for (auto [c, size] : terms) {
    if (c != stride)
      return false;
    stride *= size;
  }
  return offset.constant == 0 && stride == count;
}
