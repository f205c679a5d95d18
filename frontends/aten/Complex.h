// Complex tensors, as pairs of real tensors.

#pragma once

#include "frontends/aten/Operators.h"

namespace polyrank::frontends::aten {

/// A complex tensor is two real tensors of the same shape and type; the graph
/// has only real ones. Each operator creates new ones: writing into a complex
/// tensor in place is refused.
struct Complex : Object {
  std::shared_ptr<Tensor> real, imaginary;

  Complex(std::shared_ptr<Tensor> real, std::shared_ptr<Tensor> imaginary)
      : real(std::move(real)), imaginary(std::move(imaginary)) {}

  static Value of(Value real, Value imaginary) {
    return std::shared_ptr<Object>(
        std::make_shared<Complex>(real.getTensor(), imaginary.getTensor()));
  }
};

/// Returns `value` as a complex tensor, or null if it is none.
std::shared_ptr<Complex> asComplex(const Value &value);
/// Returns true if `value` is complex, or a list that holds a complex tensor.
bool hasComplex(const Value &value);

/// Calls an operator with a complex argument, in terms of operators on the real
/// and imaginary parts: operators that move elements and linear ones are
/// applied to each part; products, quotients, magnitudes and the like have
/// formulas. Like `call`, it records what cannot be imported and returns
/// `Value::unknown()`.
Value callComplex(Context &context, llvm::StringRef name,
                  std::optional<llvm::StringRef> overload,
                  llvm::ArrayRef<Value> positional, const Keywords &keywords);

} // namespace polyrank::frontends::aten
