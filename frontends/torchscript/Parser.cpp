// Parses the code of a TorchScript file: classes, functions and statements.

#include "frontends/torchscript/Parser.h"

#include <algorithm>

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

Class Parser::parseClass() {
  charge(2 * sizeof(Class)); // with the node of the table
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

/// Parses a list of strings: `["weight", "bias", ]`.
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
  charge(2 * sizeof(Class::Field));
  Class::Field field;
  if (name == "__annotations__") { // attributes whose names are not identifiers
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
  charge(2 * sizeof(Function));
  Function result;
  result.offset = token.offset;
  advance();
  result.name = takeName();
  expectMark("(");
  while (!isMark(")")) {
    charge(2 * sizeof(Argument));
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
    parseExpression(); // the return type: known once it is executed
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
    charge(2 * sizeof(Statement));
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
  // Parses expressions separated by commas, with an optional trailing comma.
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

Result<SourceFile> SourceFile::parse(std::string text, const std::string &name,
                                     Budget &budget) {
  SourceFile file;
  if (text.size() > UINT32_MAX)
    return Error{name + ": is too long"};
  file.text = std::move(text);
  uint64_t lines = std::count(file.text.begin(), file.text.end(), '\n');
  if (!budget.take(lines * sizeof(uint32_t)))
    return Error{name + ": " + budget.describe()};
  file.lineEnds.reserve(lines);
  for (size_t at = 0; (at = file.text.find('\n', at)) != std::string::npos;
       ++at)
    file.lineEnds.push_back(static_cast<uint32_t>(at));
  try {
    Parser(file, budget).parseFile();
  } catch (const SyntaxError &error) {
    return Error{name + ", line " + std::to_string(file.lineOf(error.offset)) +
                 ": " + error.message};
  }
  return file;
}

} // namespace polyrank::frontends::torchscript
