// Tensors of complex numbers, as pairs of real ones.

#pragma once

#include "frontends/aten/Operators.h"

namespace polyrank::frontends::aten {

/// A complex tensor is two real tensors of one shape and type; the graph has
/// real ones only. It is computed anew by each operator: what is written into
/// it in place is refused.
struct Complex : Object {
  std::shared_ptr<Tensor> real, imaginary;

  Complex(std::shared_ptr<Tensor> real, std::shared_ptr<Tensor> imaginary)
      : real(std::move(real)), imaginary(std::move(imaginary)) {}

  static Value of(Value real, Value imaginary) {
    return std::shared_ptr<Object>(
        std::make_shared<Complex>(real.getTensor(), imaginary.getTensor()));
  }
};

/// The complex tensor that `value` is, or null.
std::shared_ptr<Complex> asComplex(const Value &value);
/// Whether it is one, or a list that holds one.
bool hasComplex(const Value &value);

/// Calls an operator of which an argument is complex, in terms of operators on
/// its parts: what moves elements, and what is linear, is done to each part;
/// products, quotients, magnitudes and the like have formulas. As `call`, it
/// records what cannot be imported and returns `Value::unknown()`.
Value callComplex(Context &context, llvm::StringRef name,
                  std::optional<llvm::StringRef> overload,
                  llvm::ArrayRef<Value> positional, const Keywords &keywords);

} // namespace polyrank::frontends::aten
