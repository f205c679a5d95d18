// The code of a TorchScript file as a tree: the part of Python's grammar that
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

/// An expression, or a type, which is written as one: `Optional[Tensor]`.
struct Expression {
  enum class Kind {
    None,
    Bool,      // `integer`
    Int,       // `integer`
    Float,     // `number`
    String,    // `text`
    Name,      // `text`
    Attribute, // operands[0] `.` `text`
    Call,      // operands[0] with the others; the last of these have `keywords`
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
  std::vector<std::string> keywords; // of a call's last operands

  bool is(Kind other) const { return kind == other; }
  bool isName(std::string_view name) const {
    return kind == Kind::Name && text == name;
  }
  /// "__torch__.nn.Linear" of names joined by dots; empty for all else.
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
  /// Of an assignment: names or attributes. Each takes the value of its number;
  /// but `isUnpacked`, or where one value stands for several targets, they take
  /// the elements of that value.
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
  /// Expressions and blocks may be so deep in each other, as many attributes,
  /// calls and subscripts may follow one atom, and a file may have so many
  /// expressions or statements.
  static constexpr int maxDepth = 200, maxChain = 48;
  static constexpr size_t maxNodes = 1 << 23;

  SourceFile() = default;
  SourceFile(SourceFile &&) = default;
  SourceFile &operator=(SourceFile &&) = default;

  /// Parses `text`. `name` stands in messages, with the line: "m.pt,
  /// 'm/code/__torch__.py', line 3: ..". The tree is taken from `budget`, which
  /// without one is that of a file of this text.
  static Result<SourceFile> parse(std::string text, const std::string &name,
                                  Budget &budget);
  static Result<SourceFile> parse(std::string text, const std::string &name) {
    Budget budget(text.size());
    return parse(std::move(text), name, budget);
  }

  const std::string &getText() const { return text; }
  /// The line of `offset`, counted from 1.
  int64_t lineOf(uint32_t offset) const;

  std::map<std::string, Class, std::less<>> classes;
  std::map<std::string, Function, std::less<>> functions;

private:
  friend class Parser;
  std::string text;
  std::vector<uint32_t> lineEnds;     // in the text
  std::deque<Expression> expressions; // addresses stay
};

} // namespace polyrank::frontends::torchscript
