// The parser of a TorchScript file's code: recursive descent.

#pragma once

#include "frontends/torchscript/Lexer.h"
#include "frontends/torchscript/Syntax.h"

namespace polyrank::frontends::torchscript {

/// Adds the parsed code to `file`; throws SyntaxError.
class Parser {
public:
  Parser(SourceFile &file, Budget &budget)
      : file(file), budget(budget), lexer(file.text) {
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
  void charge(uint64_t bytes) {
    if (!budget.take(bytes))
      fail(budget.describe());
  }
  std::string takeName() {
    if (token.kind != Token::Kind::Name)
      fail("a name is expected");
    std::string name = std::move(token.text);
    advance();
    return name;
  }

  Expression &make(Expression::Kind kind, uint32_t offset) {
    if (file.expressions.size() == SourceFile::maxNodes)
      fail("holds more than " + std::to_string(SourceFile::maxNodes) +
           " expressions");
    charge(2 * sizeof(Expression)); // with its place among the operands
    Expression &made = file.expressions.emplace_back();
    made.kind = kind;
    made.offset = offset;
    return made;
  }

  /// While it lives, one more nesting level of blocks or expressions is
  /// counted.
  struct Level {
    explicit Level(Parser &parser) : depth(parser.depth) {
      if (++depth > SourceFile::maxDepth)
        parser.fail("is nested more than " +
                    std::to_string(SourceFile::maxDepth) + " deep");
    }
    ~Level() { --depth; }
    int &depth;
  };

  /// Classes, functions and statements (Parser.cpp).
  /// @{
  Class parseClass();
  void parseClassEntry(Class &result);
  Function parseFunction();
  std::vector<Statement> parseBlock();
  Statement parseStatement();
  void parseAssignment(Statement &statement);
  std::vector<std::string> parseNames();
  /// @}

  /// Expressions (ParseExpressions.cpp).
  /// @{
  const Expression *parseExpression();
  const Expression *parsePrimary();
  const Expression *parseAtom();
  const Expression *parseSubscript(const Expression *base, uint32_t offset);
  void parseArguments(Expression &call);
  /// Parses a list up to `end`, with or without a trailing comma; returns true
  /// if there was a comma.
  bool parseList(Expression &into, std::string_view end);
  /// @}

  SourceFile &file;
  Budget &budget;
  Lexer lexer;
  Token token;
  int depth = 0;
  size_t statements = 0;
};

} // namespace polyrank::frontends::torchscript
