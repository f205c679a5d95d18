// Sizes that torch.export leaves open: expressions of symbols.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::exported_program {

/// A SymPy expression as torch.export writes it: `2*s0 + 1`, or
/// `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))`.
class SymbolicExpression {
public:
  /// The longest text, in bytes, that is parsed: the tree of a longer one could
  /// be too deep to walk.
  static constexpr size_t maxLength = 4096;

  /// Text that cannot be parsed is kept as it is; it then has no value.
  explicit SymbolicExpression(llvm::StringRef text);
  ~SymbolicExpression();

  /// The name of the symbol if the expression is a single symbol, else empty.
  std::string getSymbol() const;
  /// The expression as the user would write it: "s0", "2*s0 + 1". Parsing it
  /// again gives the same expression.
  std::string toString() const;
  /// The value, if `valueOf` knows all symbols; nullopt if a symbol is unknown,
  /// on overflow, or if a division leaves a remainder.
  std::optional<int64_t> evaluate(
      const std::function<std::optional<int64_t>(llvm::StringRef)> &valueOf)
      const;

private:
  struct Term;
  std::unique_ptr<Term> term; // null: not understood
  std::string text;
};

} // namespace polyrank::frontends::exported_program
