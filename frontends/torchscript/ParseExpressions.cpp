// Parses the expressions of a TorchScript file's code.

#include "frontends/torchscript/Parser.h"

#include <algorithm>
#include <charconv>

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

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
      return operand; // the lowest integer, which has no negation
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
  // A chain of attributes, calls and subscripts does not nest in the parser,
  // but does nest in the tree.
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
  } else if (isMark(",")) { // a type: Dict[str, Tensor]
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
    // 2^63 is valid after a minus, as the lowest integer, and is kept as it is.
    integer.integer = static_cast<int64_t>(value);
    advance();
    return &integer;
  }
  if (token.kind == Token::Kind::Float) {
    Expression &number = make(Kind::Float, offset);
    // Out of range, the value is infinite or 0, as in Python.
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

} // namespace polyrank::frontends::torchscript
