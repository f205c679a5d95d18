// Sizes that torch.export leaves open: expressions of symbols.

#include "frontends/exported_program/Symbols.h"

#include <vector>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace polyrank::frontends::exported_program {

struct SymbolicExpression::Term {
  enum class Kind { Symbol, Integer, Add, Mul, FloorDiv } kind;
  std::string name;
  int64_t integer = 0;
  std::vector<std::unique_ptr<Term>> operands;
};

namespace {

constexpr int maxDepth = 64;

} // namespace

/// Parses both notations by recursive descent.
template <typename Term>
class ExpressionParser {
public:
  explicit ExpressionParser(StringRef text) : rest(text) {}

  std::unique_ptr<Term> run() {
    auto term = parseSum(0);
    rest = rest.ltrim();
    return rest.empty() ? std::move(term) : nullptr;
  }

private:
  using Kind = typename Term::Kind;

  static std::unique_ptr<Term> make(Kind kind,
                                    std::unique_ptr<Term> a = nullptr,
                                    std::unique_ptr<Term> b = nullptr) {
    auto term = std::make_unique<Term>();
    term->kind = kind;
    if (a)
      term->operands.push_back(std::move(a));
    if (b)
      term->operands.push_back(std::move(b));
    return term;
  }

  static std::unique_ptr<Term> integer(int64_t value) {
    auto term = make(Kind::Integer);
    term->integer = value;
    return term;
  }

  static bool isName(StringRef text) {
    return !text.empty() && !isDigit(text.front()) &&
           all_of(text, [](char c) { return isAlnum(c) || c == '_'; });
  }

  bool take(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  std::unique_ptr<Term> parseSum(int depth) {
    if (depth > maxDepth)
      return nullptr;
    auto left = parseProduct(depth);
    while (left) {
      bool isMinus = false;
      if (take("-"))
        isMinus = true;
      else if (!take("+"))
        return left;
      auto right = parseProduct(depth);
      if (!right)
        return nullptr;
      if (isMinus)
        right = make(Kind::Mul, integer(-1), std::move(right));
      left = make(Kind::Add, std::move(left), std::move(right));
    }
    return nullptr;
  }

  std::unique_ptr<Term> parseProduct(int depth) {
    auto left = parseFactor(depth);
    while (left) {
      Kind kind = Kind::Mul;
      rest = rest.ltrim();
      if (rest.starts_with("**"))
        return nullptr;
      if (take("//"))
        kind = Kind::FloorDiv;
      else if (!take("*"))
        return left;
      auto right = parseFactor(depth);
      if (!right)
        return nullptr;
      left = make(kind, std::move(left), std::move(right));
    }
    return nullptr;
  }

  std::unique_ptr<Term> parseFactor(int depth) {
    if (depth > maxDepth)
      return nullptr;
    if (take("-")) {
      auto factor = parseFactor(depth + 1);
      return factor ? make(Kind::Mul, integer(-1), std::move(factor)) : nullptr;
    }
    if (take("(")) {
      auto inner = parseSum(depth + 1);
      return inner && take(")") ? std::move(inner) : nullptr;
    }
    rest = rest.ltrim();
    StringRef digits = rest.take_while(isDigit);
    if (!digits.empty()) {
      int64_t value;
      rest = rest.drop_front(digits.size());
      return digits.getAsInteger(10, value) ? nullptr : integer(value);
    }
    StringRef name =
        rest.take_while([](char c) { return isAlnum(c) || c == '_'; });
    if (name.empty())
      return nullptr;
    rest = rest.drop_front(name.size());
    if (!take("(")) {
      auto term = make(Kind::Symbol);
      term->name = name.str();
      return term;
    }
    return parseCall(name, depth + 1);
  }

  /// Parses the arguments after "NAME(".
  std::unique_ptr<Term> parseCall(StringRef name, int depth) {
    if (name == "Symbol") {
      // Symbol('s0', positive=True, integer=True)
      if (!take("'"))
        return nullptr;
      auto [symbol, behind] = rest.split('\'');
      size_t end = behind.find(')');
      if (!isName(symbol) || end == StringRef::npos)
        return nullptr;
      rest = behind.drop_front(end + 1);
      auto term = make(Kind::Symbol);
      term->name = symbol.str();
      return term;
    }
    std::vector<std::unique_ptr<Term>> operands;
    while (true) {
      auto operand = parseSum(depth);
      if (!operand)
        return nullptr;
      operands.push_back(std::move(operand));
      if (take(")"))
        break;
      if (!take(","))
        return nullptr;
    }
    if (name == "Integer" && operands.size() == 1)
      return std::move(operands[0]);
    Kind kind;
    if (name == "Add")
      kind = Kind::Add;
    else if (name == "Mul")
      kind = Kind::Mul;
    else if (name == "FloorDiv" && operands.size() == 2)
      kind = Kind::FloorDiv;
    else
      return nullptr;
    auto term = make(kind);
    term->operands = std::move(operands);
    return term;
  }

  StringRef rest;
};

SymbolicExpression::SymbolicExpression(StringRef text)
    : term(text.size() > maxLength ? nullptr
                                   : ExpressionParser<Term>(text).run()),
      text(text.str()) {}

SymbolicExpression::~SymbolicExpression() = default;

std::string SymbolicExpression::getSymbol() const {
  return term && term->kind == Term::Kind::Symbol ? term->name : "";
}

/// Prints a term so that parsing the text gives the same tree of operations:
/// `a*(b//c)` and `a*b//c` are different numbers, and one of the sums `a + (b +
/// c)` and `a + b + c` may overflow when the other does not.
template <typename Term>
class ExpressionPrinter {
public:
  static std::string sum(const Term &term) {
    if (term.kind != Kind::Add)
      return product(term);
    std::string result = sum(*term.operands[0]);
    for (const auto &operand : drop_begin(term.operands)) {
      const Term *negated = findNegated(*operand);
      result += negated ? " - " : " + ";
      result += product(negated ? *negated : *operand);
    }
    return result;
  }

private:
  using Kind = typename Term::Kind;

  /// Returns x if the term is -x, which is parsed as -1 times x.
  static const Term *findNegated(const Term &term) {
    bool isNegation = term.kind == Kind::Mul && term.operands.size() == 2 &&
                      term.operands[0]->kind == Kind::Integer &&
                      term.operands[0]->integer == -1;
    return isNegation ? term.operands[1].get() : nullptr;
  }

  static std::string product(const Term &term) {
    if ((term.kind != Kind::Mul && term.kind != Kind::FloorDiv) ||
        findNegated(term))
      return factor(term);
    std::string result = product(*term.operands[0]);
    for (const auto &operand : drop_begin(term.operands))
      result += (term.kind == Kind::Mul ? "*" : "//") + factor(*operand);
    return result;
  }

  static std::string factor(const Term &term) {
    if (term.kind == Kind::Symbol)
      return term.name;
    if (term.kind == Kind::Integer)
      return std::to_string(term.integer);
    if (const Term *negated = findNegated(term))
      return "-" + factor(*negated);
    return "(" + sum(term) + ")";
  }
};

std::string SymbolicExpression::toString() const {
  return term ? ExpressionPrinter<Term>::sum(*term) : text;
}

std::optional<int64_t> SymbolicExpression::evaluate(
    const std::function<std::optional<int64_t>(StringRef)> &valueOf) const {
  auto compute = [&](auto &self, const Term &t) -> std::optional<int64_t> {
    if (t.kind == Term::Kind::Symbol)
      return valueOf(t.name);
    if (t.kind == Term::Kind::Integer)
      return t.integer;
    std::optional<int64_t> result;
    for (const auto &operand : t.operands) {
      auto value = self(self, *operand);
      if (!value)
        return std::nullopt;
      if (!result) {
        result = value;
        continue;
      }
      int64_t next = 0;
      bool overflows = false;
      if (t.kind == Term::Kind::Add)
        overflows = AddOverflow(*result, *value, next);
      else if (t.kind == Term::Kind::Mul)
        overflows = MulOverflow(*result, *value, next);
      else if (*value <= 0 || *result < 0)
        overflows = true;
      else
        next = *result / *value;
      if (overflows)
        return std::nullopt;
      result = next;
    }
    return result;
  };
  return term ? compute(compute, *term) : std::nullopt;
}

} // namespace polyrank::frontends::exported_program
