// The syntax tree of TorchScript's code: the part of Python's grammar that
// PyTorch's printer writes.

#pragma once

#include "support/Budget.h"
#include "support/Result.h"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::frontends::torchscript {

/// An expression, or a type, which has the same syntax: `Optional[Tensor]`.
struct Expression {
  enum class Kind {
    None,
    Bool,      // `integer`
    Int,       // `integer`
    Float,     // `number`
    String,    // `text`
    Name,      // `text`
    Attribute, // operands[0] `.` `text`
    Call,      // operands[0] with the rest; the last ones have `keywords`
    Subscript, // operands[0] [ operands[1] ]
    Slice,     // operands[0] : operands[1], in a subscript
    List,      // operands
    Tuple,     // operands
    Dict,      // operands: a key, its value, the next key, ..
    Negate,    // - operands[0]
  };

  Kind kind = Kind::None;
  uint32_t offset = 0; // in the file's text
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const Expression *> operands;
  std::vector<std::string> keywords; // for the last operands of a call

  bool is(Kind other) const { return kind == other; }
  bool isName(std::string_view name) const {
    return kind == Kind::Name && text == name;
  }
  /// Returns "__torch__.nn.Linear" if it consists of names joined by dots, else
  /// "".
  std::string dotted() const;
};

struct Statement {
  enum class Kind {
    Assign,   // targets = values; see below
    Evaluate, // values[0]
    Return,   // values[0], None where it is left out
    If,       // values[0], body, otherwise
    For,      // targets[0] in range(values[0]): body
    While,    // values[0]: body
    With,     // values[0] [as targets[0]]: body
    Pass,
  };

  Kind kind = Kind::Pass;
  uint32_t offset = 0;
  /// The two sides of an assignment: the targets are names or attributes. Each
  /// target takes the value with its index. If `isUnpacked`, or if there is one
  /// value for several targets, they take the elements of that value.
  std::vector<const Expression *> targets, values;
  bool isUnpacked = false;
  const Expression *annotation = nullptr; // a type, or null
  std::vector<Statement> body, otherwise;
};

struct Argument {
  std::string name;
  const Expression *type = nullptr;         // null for `self` in an interface
  const Expression *defaultValue = nullptr; // null for none
};

struct Function {
  std::string name;
  uint32_t offset = 0;
  std::vector<Argument> arguments;
  std::vector<Statement> body;
};

struct Class {
  /// An entry of the body: `name : type`, `name : Final[type] = value`,
  /// `name = value`.
  struct Field {
    std::string name;
    const Expression *type = nullptr, *value = nullptr;
  };

  std::string name, base; // "Module", "NamedTuple", "Enum", ..; or no base
  uint32_t offset = 0;
  std::vector<std::string> parameters, buffers, preHooks, hooks;
  std::vector<Field> fields;
  std::vector<Function> methods;

  const Function *findMethod(std::string_view name) const;
  const Field *findField(std::string_view name) const;
};

/// One file of code.
class SourceFile {
public:
  /// Limits: the nesting depth of expressions and blocks; the number of
  /// attributes, calls and subscripts after one atom; and the number of
  /// expressions or statements in a file.
  static constexpr int maxDepth = 200, maxChain = 48;
  static constexpr size_t maxNodes = 1 << 23;

  SourceFile() = default;
  SourceFile(SourceFile &&) = default;
  SourceFile &operator=(SourceFile &&) = default;

  /// Parses `text`. `name` is used in messages, with the line: "m.pt,
  /// 'm/code/__torch__.py', line 3: ..". The memory of the tree is taken from
  /// `budget`; without one, from the budget of a file of this text.
  static Result<SourceFile> parse(std::string text, const std::string &name,
                                  Budget &budget);
  static Result<SourceFile> parse(std::string text, const std::string &name) {
    Budget budget(text.size());
    return parse(std::move(text), name, budget);
  }

  const std::string &getText() const { return text; }
  /// The line number at `offset`, counted from 1.
  int64_t lineOf(uint32_t offset) const;

  std::map<std::string, Class, std::less<>> classes;
  std::map<std::string, Function, std::less<>> functions;

private:
  friend class Parser;
  std::string text;
  std::vector<uint32_t> lineEnds;     // in the text
  std::deque<Expression> expressions; // addresses are stable
};

} // namespace polyrank::frontends::torchscript
