// Sizes that torch.export leaves open: expressions of symbols.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::exported_program {

/// An expression of SymPy, as torch.export writes it: `2*s0 + 1`, or
/// `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))`.
class SymbolicExpression {
public:
  /// A text of more bytes would be a tree too deep to walk, and is not
  /// understood.
  static constexpr size_t maxLength = 4096;

  /// `text` is kept as it is where it is no expression that is understood; it
  /// then has no value.
  explicit SymbolicExpression(llvm::StringRef text);
  ~SymbolicExpression();

  /// The symbol's name where it is nothing else, else empty.
  std::string getSymbol() const;
  /// As the user would write it: "s0", "2*s0 + 1". Read again it is the same
  /// expression.
  std::string toString() const;
  /// Where `valueOf` has all symbols; nullopt where it overflows or does not
  /// divide.
  std::optional<int64_t> evaluate(
      const std::function<std::optional<int64_t>(llvm::StringRef)> &valueOf)
      const;

private:
  struct Term;
  std::unique_ptr<Term> term; // null: not understood
  std::string text;
};

} // namespace polyrank::frontends::exported_program
