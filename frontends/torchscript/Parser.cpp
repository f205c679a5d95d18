// Parses the code of a TorchScript file: statements and expressions, by
// recursive descent.

#include "frontends/torchscript/Lexer.h"
#include "frontends/torchscript/Syntax.h"

#include <algorithm>
#include <charconv>

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

class Parser {
public:
  explicit Parser(SourceFile &file) : file(file), lexer(file.text) {
    advance();
  }

  void parseFile() {
    while (token.kind != Token::Kind::End) {
      if (token.kind == Token::Kind::Newline) {
        advance();
      } else if (isWord("class")) {
        Class parsed = parseClass();
        if (!file.classes.emplace(parsed.name, std::move(parsed)).second)
          fail("a class of this name is already defined");
      } else if (isWord("def")) {
        Function function = parseFunction();
        if (!file.functions.emplace(function.name, std::move(function)).second)
          fail("a function of this name is already defined");
      } else {
        fail("a class or a function is expected");
      }
    }
  }

private:
  [[noreturn]] void fail(std::string message) const {
    throw SyntaxError{std::move(message), token.offset};
  }
  void advance() { token = lexer.next(); }
  bool isMark(std::string_view text) const {
    return token.kind == Token::Kind::Mark && token.text == text;
  }
  bool isWord(std::string_view text) const {
    return token.kind == Token::Kind::Name && token.text == text;
  }
  bool takeMark(std::string_view text) {
    bool is = isMark(text);
    if (is)
      advance();
    return is;
  }
  bool takeWord(std::string_view text) {
    bool is = isWord(text);
    if (is)
      advance();
    return is;
  }
  void expectMark(std::string_view text) {
    if (!takeMark(text))
      fail("`" + std::string(text) + "` is expected");
  }
  void expect(Token::Kind kind, const char *what) {
    if (token.kind != kind)
      fail(std::string(what) + " is expected");
    advance();
  }
  std::string takeName() {
    if (token.kind != Token::Kind::Name)
      fail("a name is expected");
    std::string name = std::move(token.text);
    advance();
    return name;
  }

  Expression &make(Kind kind, uint32_t offset) {
    if (file.expressions.size() == SourceFile::maxNodes)
      fail("holds more than " + std::to_string(SourceFile::maxNodes) +
           " expressions");
    Expression &made = file.expressions.emplace_back();
    made.kind = kind;
    made.offset = offset;
    return made;
  }

  /// One more level of blocks or expressions, as long as it lives.
  struct Level {
    explicit Level(Parser &parser) : depth(parser.depth) {
      if (++depth > SourceFile::maxDepth)
        parser.fail("is nested more than " +
                    std::to_string(SourceFile::maxDepth) + " deep");
    }
    ~Level() { --depth; }
    int &depth;
  };

  Class parseClass();
  void parseClassEntry(Class &result);
  Function parseFunction();
  std::vector<Statement> parseBlock();
  Statement parseStatement();
  void parseAssignment(Statement &statement);
  const Expression *parseExpression();
  const Expression *parsePrimary();
  const Expression *parseAtom();
  const Expression *parseSubscript(const Expression *base, uint32_t offset);
  void parseArguments(Expression &call);
  /// Up to `end`, with a comma behind the last or without; whether there was a
  /// comma.
  bool parseList(Expression &into, std::string_view end);
  std::vector<std::string> parseNames();

  SourceFile &file;
  Lexer lexer;
  Token token;
  int depth = 0;
  size_t statements = 0;
};

Class Parser::parseClass() {
  Class result;
  result.offset = token.offset;
  advance();
  result.name = takeName();
  if (takeMark("(")) {
    result.base = takeName();
    expectMark(")");
  }
  expectMark(":");
  expect(Token::Kind::Newline, "the end of the line");
  expect(Token::Kind::Indent, "an indented block");
  while (token.kind != Token::Kind::Dedent) {
    if (token.kind == Token::Kind::End)
      fail("the class is cut off");
    parseClassEntry(result);
  }
  advance();
  return result;
}

/// The texts of a list: `["weight", "bias", ]`.
std::vector<std::string> Parser::parseNames() {
  const Expression *list = parseExpression();
  if (!list->is(Kind::List))
    fail("a list of texts is expected");
  std::vector<std::string> names;
  for (const Expression *element : list->operands) {
    if (!element->is(Kind::String))
      fail("a list of texts is expected");
    names.push_back(element->text);
  }
  return names;
}

void Parser::parseClassEntry(Class &result) {
  if (isWord("def")) {
    result.methods.push_back(parseFunction());
    return;
  }
  if (takeWord("pass")) {
    expect(Token::Kind::Newline, "the end of the line");
    return;
  }
  std::string name = takeName();
  std::pair<const char *, std::vector<std::string> *> lists[] = {
      {"__parameters__", &result.parameters},
      {"__buffers__", &result.buffers},
      {"__forward_pre_hooks__", &result.preHooks},
      {"__forward_hooks__", &result.hooks}};
  for (auto [list, into] : lists)
    if (name == list) {
      expectMark("=");
      *into = parseNames();
      expect(Token::Kind::Newline, "the end of the line");
      return;
    }
  Class::Field field;
  if (name == "__annotations__") { // of attributes whose names are no words
    if (takeMark("=")) {
      parseExpression();
      expect(Token::Kind::Newline, "the end of the line");
      return;
    }
    expectMark("[");
    if (token.kind != Token::Kind::String)
      fail("a text is expected");
    field.name = token.text;
    advance();
    expectMark("]");
    expectMark("=");
    field.type = parseExpression();
  } else {
    field.name = std::move(name);
    if (takeMark(":"))
      field.type = parseExpression();
    if (takeMark("="))
      field.value = parseExpression();
    if (!field.type && !field.value)
      fail("a type or a value is expected");
  }
  result.fields.push_back(std::move(field));
  expect(Token::Kind::Newline, "the end of the line");
}

Function Parser::parseFunction() {
  Function result;
  result.offset = token.offset;
  advance();
  result.name = takeName();
  expectMark("(");
  while (!isMark(")")) {
    Argument argument;
    argument.name = takeName();
    if (takeMark(":"))
      argument.type = parseExpression();
    if (takeMark("="))
      argument.defaultValue = parseExpression();
    result.arguments.push_back(std::move(argument));
    if (!takeMark(","))
      break;
  }
  expectMark(")");
  if (takeMark("->"))
    parseExpression(); // what it returns is seen when it is executed
  expectMark(":");
  result.body = parseBlock();
  return result;
}

std::vector<Statement> Parser::parseBlock() {
  Level level(*this);
  expect(Token::Kind::Newline, "the end of the line");
  expect(Token::Kind::Indent, "an indented block");
  std::vector<Statement> body;
  while (token.kind != Token::Kind::Dedent) {
    if (token.kind == Token::Kind::End)
      fail("the block is cut off");
    if (++statements > SourceFile::maxNodes)
      fail("holds more than " + std::to_string(SourceFile::maxNodes) +
           " statements");
    body.push_back(parseStatement());
  }
  advance();
  return body;
}

Statement Parser::parseStatement() {
  using Is = Statement::Kind;
  Statement statement;
  statement.offset = token.offset;
  if (takeWord("if")) {
    statement.kind = Is::If;
    statement.values = {parseExpression()};
    expectMark(":");
    statement.body = parseBlock();
    if (takeWord("else")) {
      expectMark(":");
      statement.otherwise = parseBlock();
    }
    return statement;
  }
  if (takeWord("for")) {
    statement.kind = Is::For;
    Expression &index = make(Kind::Name, token.offset);
    index.text = takeName();
    statement.targets = {&index};
    if (!takeWord("in") || !takeWord("range"))
      fail("`in range(..)` is expected");
    expectMark("(");
    statement.values = {parseExpression()};
    expectMark(")");
    expectMark(":");
    statement.body = parseBlock();
    return statement;
  }
  if (takeWord("while")) {
    statement.kind = Is::While;
    statement.values = {parseExpression()};
    expectMark(":");
    statement.body = parseBlock();
    return statement;
  }
  if (takeWord("with")) {
    statement.kind = Is::With;
    statement.values = {parseExpression()};
    if (takeWord("as")) {
      Expression &name = make(Kind::Name, token.offset);
      name.text = takeName();
      statement.targets = {&name};
    }
    expectMark(":");
    statement.body = parseBlock();
    return statement;
  }
  if (isWord("def"))
    fail("functions inside of functions (torch.jit.fork) are not supported");
  if (takeWord("pass")) {
    statement.kind = Is::Pass;
  } else if (takeWord("return")) {
    statement.kind = Is::Return;
    statement.values = {token.kind == Token::Kind::Newline
                            ? &make(Kind::None, token.offset)
                            : parseExpression()};
  } else {
    parseAssignment(statement);
  }
  expect(Token::Kind::Newline, "the end of the line");
  return statement;
}

void Parser::parseAssignment(Statement &statement) {
  // Expressions with commas between them; the last may end in one.
  auto parseRow = [&](bool &endsInComma) {
    std::vector<const Expression *> row = {parseExpression()};
    endsInComma = false;
    while (takeMark(",")) {
      endsInComma = isMark("=") || token.kind == Token::Kind::Newline;
      if (endsInComma)
        break;
      row.push_back(parseExpression());
    }
    return row;
  };
  bool endsInComma = false;
  statement.values = parseRow(endsInComma);
  statement.kind = Statement::Kind::Evaluate;
  if (!endsInComma && statement.values.size() == 1 && takeMark(":"))
    statement.annotation = parseExpression();
  if (!takeMark("=")) {
    if (statement.annotation || endsInComma || statement.values.size() != 1)
      fail("`=` is expected");
    return;
  }
  statement.kind = Statement::Kind::Assign;
  statement.targets = std::move(statement.values);
  statement.isUnpacked = endsInComma;
  statement.values = parseRow(endsInComma);
  if (endsInComma)
    fail("a value is expected");
  for (const Expression *target : statement.targets)
    if (!target->is(Kind::Name) && !target->is(Kind::Attribute))
      fail("only names and attributes take values");
  if (statement.values.size() != 1 &&
      (statement.isUnpacked ||
       statement.values.size() != statement.targets.size()))
    fail(std::to_string(statement.targets.size()) + " names take " +
         std::to_string(statement.values.size()) + " values");
}

const Expression *Parser::parseExpression() {
  Level level(*this);
  uint32_t offset = token.offset;
  if (takeMark("-")) {
    const Expression *operand = parseExpression();
    if (operand->is(Kind::Int) && operand->integer != INT64_MIN) {
      Expression &negative = make(Kind::Int, offset);
      negative.integer = -operand->integer;
      return &negative;
    }
    if (operand->is(Kind::Int))
      return operand; // the lowest integer, which has no positive
    Expression &negative =
        make(operand->is(Kind::Float) ? Kind::Float : Kind::Negate, offset);
    negative.number = -operand->number;
    if (negative.is(Kind::Negate))
      negative.operands = {operand};
    return &negative;
  }
  return parsePrimary();
}

const Expression *Parser::parsePrimary() {
  const Expression *result = parseAtom();
  // As many attributes, calls and subscripts as there are: not deeper in the
  // parser, but deeper in the tree.
  int length = 0;
  for (;;) {
    uint32_t offset = token.offset;
    if (++length > SourceFile::maxChain &&
        (isMark(".") || isMark("(") || isMark("[")))
      fail("more than " + std::to_string(SourceFile::maxChain) +
           " attributes, calls and subscripts follow each other");
    if (takeMark(".")) {
      Expression &attribute = make(Kind::Attribute, offset);
      attribute.operands = {result};
      attribute.text = takeName();
      result = &attribute;
    } else if (takeMark("(")) {
      Expression &call = make(Kind::Call, result->offset);
      call.operands = {result};
      parseArguments(call);
      result = &call;
    } else if (takeMark("[")) {
      result = parseSubscript(result, offset);
    } else {
      return result;
    }
  }
}

void Parser::parseArguments(Expression &call) {
  while (!isMark(")")) {
    const Expression *argument = parseExpression();
    if (argument->is(Kind::Name) && takeMark("=")) {
      call.keywords.push_back(argument->text);
      argument = parseExpression();
    } else if (!call.keywords.empty()) {
      fail("an argument without a name follows one with a name");
    }
    call.operands.push_back(argument);
    if (!takeMark(","))
      break;
  }
  expectMark(")");
}

const Expression *Parser::parseSubscript(const Expression *base,
                                         uint32_t offset) {
  Expression &subscript = make(Kind::Subscript, offset);
  const Expression *index = parseExpression();
  if (takeMark(":")) {
    Expression &slice = make(Kind::Slice, index->offset);
    slice.operands = {index, parseExpression()};
    index = &slice;
  } else if (isMark(",")) { // of a type: Dict[str, Tensor]
    Expression &tuple = make(Kind::Tuple, index->offset);
    tuple.operands = {index};
    while (takeMark(",") && !isMark("]"))
      tuple.operands.push_back(parseExpression());
    index = &tuple;
  }
  expectMark("]");
  subscript.operands = {base, index};
  return &subscript;
}

bool Parser::parseList(Expression &into, std::string_view end) {
  bool hasComma = false;
  while (!isMark(end)) {
    into.operands.push_back(parseExpression());
    if (into.is(Kind::Dict)) {
      expectMark(":");
      into.operands.push_back(parseExpression());
    }
    if (!takeMark(","))
      break;
    hasComma = true;
  }
  expectMark(end);
  return hasComma;
}

const Expression *Parser::parseAtom() {
  uint32_t offset = token.offset;
  if (takeMark("(")) {
    Expression &tuple = make(Kind::Tuple, offset);
    bool hasComma = parseList(tuple, ")");
    return tuple.operands.size() == 1 && !hasComma ? tuple.operands[0] : &tuple;
  }
  if (takeMark("[")) {
    Expression &list = make(Kind::List, offset);
    parseList(list, "]");
    return &list;
  }
  if (takeMark("{")) {
    Expression &dict = make(Kind::Dict, offset);
    parseList(dict, "}");
    return &dict;
  }
  if (token.kind == Token::Kind::String) {
    Expression &string = make(Kind::String, offset);
    string.text = std::move(token.text);
    advance();
    return &string;
  }
  if (token.kind == Token::Kind::Int) {
    Expression &integer = make(Kind::Int, offset);
    uint64_t value = 0;
    const char *end = token.text.data() + token.text.size();
    auto [rest, problem] = std::from_chars(token.text.data(), end, value);
    if (problem != std::errc() || rest != end || value > uint64_t(1) << 63)
      fail("an integer has more than 64 bits");
    // 2^63 is the lowest integer behind a minus, which stays as it is.
    integer.integer = static_cast<int64_t>(value);
    advance();
    return &integer;
  }
  if (token.kind == Token::Kind::Float) {
    Expression &number = make(Kind::Float, offset);
    // Beyond the range it is infinite or 0, as Python reads it.
    number.number = std::strtod(token.text.c_str(), nullptr);
    advance();
    return &number;
  }
  if (token.kind != Token::Kind::Name)
    fail("an expression is expected");
  if (takeWord("None"))
    return &make(Kind::None, offset);
  if (isWord("True") || isWord("False")) {
    Expression &value = make(Kind::Bool, offset);
    value.integer = token.text == "True";
    advance();
    return &value;
  }
  Expression &name = make(Kind::Name, offset);
  name.text = takeName();
  return &name;
}

std::string Expression::dotted() const {
  if (is(Kind::Name))
    return text;
  if (!is(Kind::Attribute))
    return "";
  std::string prefix = operands[0]->dotted();
  return prefix.empty() ? "" : prefix + "." + text;
}

const Function *Class::findMethod(std::string_view name) const {
  for (const Function &method : methods)
    if (method.name == name)
      return &method;
  return nullptr;
}

const Class::Field *Class::findField(std::string_view name) const {
  for (const Field &field : fields)
    if (field.name == name)
      return &field;
  return nullptr;
}

int64_t SourceFile::lineOf(uint32_t offset) const {
  return 1 + std::count(text.begin(),
                        text.begin() + std::min<size_t>(offset, text.size()),
                        '\n');
}

Result<SourceFile> SourceFile::parse(std::string text,
                                     const std::string &name) {
  SourceFile file;
  if (text.size() > UINT32_MAX)
    return Error{name + ": is too long"};
  file.text = std::move(text);
  try {
    Parser(file).parseFile();
  } catch (const SyntaxError &error) {
    return Error{name + ", line " + std::to_string(file.lineOf(error.offset)) +
                 ": " + error.message};
  }
  return file;
}

} // namespace polyrank::frontends::torchscript
