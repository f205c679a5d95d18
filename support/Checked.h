// Checked arithmetic on sizes from a file: an overflow sticks and never fits.

#pragma once

#include <cstdint>

namespace polyrank {

/// A non-negative integer that remembers if its computation overflowed or went
/// below zero. Use it only through `fits(limit)`.
class Checked {
public:
  Checked(uint64_t value) : number(value) {}
  static Checked of(int64_t value) {
    Checked checked(static_cast<uint64_t>(value));
    checked.valid = value >= 0;
    return checked;
  }

  friend Checked operator+(Checked a, Checked b) {
    Checked sum(0);
    bool overflow = __builtin_add_overflow(a.number, b.number, &sum.number);
    sum.valid = a.valid && b.valid && !overflow;
    return sum;
  }
  friend Checked operator*(Checked a, Checked b) {
    Checked product(0);
    bool overflow = __builtin_mul_overflow(a.number, b.number, &product.number);
    product.valid = a.valid && b.valid && !overflow;
    return product;
  }

  bool fits(uint64_t limit) const { return valid && number <= limit; }
  bool is(uint64_t value) const { return valid && number == value; }
  /// For messages, and after `fits` returned true.
  uint64_t value() const { return valid ? number : UINT64_MAX; }

private:
  uint64_t number;
  bool valid = true;
};

} // namespace polyrank
