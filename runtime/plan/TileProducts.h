// Which elements the products of attention's tiles have, for the plan's
// verifier and the CPU's device, whose enumerations have the same names.

#pragma once

namespace polyrank::runtime {

/// Returns true if such products are of elements of this type.
template <typename Products, typename Element>
bool multiplies(Products products, Element type) {
  switch (products) {
  case Products::Float32:
    return type == Element::F32;
  case Products::BFloat16:
    return type == Element::BF16;
  case Products::Widened:
    return type == Element::BF16 || type == Element::F16;
  }
  return false;
}

} // namespace polyrank::runtime
