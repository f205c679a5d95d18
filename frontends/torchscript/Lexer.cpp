// The lexer of TorchScript's code.

#include "frontends/torchscript/Lexer.h"

namespace polyrank::frontends::torchscript {

namespace {

constexpr size_t maxIndents = 256;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool startsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (c & '\x80'); // letters beyond ASCII
}

} // namespace

/// Starts a line; returns true if it begins with a token of its own: an Indent
/// or a Dedent.
bool Lexer::beginLine(Token &token) {
  for (;;) { // skips empty lines
    size_t start = at;
    while (peek() == ' ')
      ++at;
    if (peek() == '\n') {
      ++at;
      continue;
    }
    if (peek() == '#') {
      while (at < text.size() && peek() != '\n')
        ++at;
      continue;
    }
    token.offset = at;
    size_t width = at == text.size() ? 0 : at - start;
    if (width > indents.back()) {
      if (indents.size() == maxIndents)
        fail("blocks are nested more than " + std::to_string(maxIndents) +
             " deep");
      indents.push_back(width);
      token.kind = Token::Kind::Indent;
      isLineStart = false;
      return true;
    }
    if (width < indents.back()) {
      indents.pop_back();
      if (width > indents.back())
        fail("the line begins at a column where no block does");
      token.kind = Token::Kind::Dedent;
      at = start; // there may be several Dedents
      return true;
    }
    isLineStart = false;
    return false;
  }
}

Token Lexer::next() {
  Token token;
  if (isLineStart && beginLine(token))
    return token;
  for (;; ++at) {
    if (peek() == ' ' || (brackets > 0 && peek() == '\n'))
      continue;
    if (peek() != '#')
      break;
    while (at + 1 < text.size() && text[at + 1] != '\n')
      ++at;
  }
  token.offset = at;
  if (at == text.size())
    return token;
  char c = peek();
  if (c == '\n') {
    ++at;
    isLineStart = true;
    token.kind = Token::Kind::Newline;
    return token;
  }
  if (startsName(c)) {
    while (startsName(peek()) || isDigit(peek()))
      ++at;
    token.kind = Token::Kind::Name;
    token.text = text.substr(token.offset, at - token.offset);
    return token;
  }
  if (isDigit(c) || (c == '.' && isDigit(peek(1))))
    return number();
  if (c == '"' || c == '\'')
    return string();
  constexpr std::string_view marks = "()[]{}:,.=-";
  if (marks.find(c) == marks.npos) {
    if (static_cast<unsigned char>(c) < ' ')
      fail("holds a character that no code has (" +
           std::to_string(static_cast<unsigned char>(c)) + ")");
    fail(std::string("`") + c + "` is not understood here");
  }
  ++at;
  token.kind = Token::Kind::Mark;
  token.text = c;
  if (c == '-' && peek() == '>') {
    ++at;
    token.text = "->";
  }
  if (c == '(' || c == '[' || c == '{')
    ++brackets;
  else if ((c == ')' || c == ']' || c == '}') && --brackets < 0)
    fail("a bracket is closed that is not open");
  return token;
}

Token Lexer::number() {
  Token token;
  token.offset = at;
  token.kind = Token::Kind::Int;
  auto digits = [&] {
    while (isDigit(peek()))
      ++at;
  };
  digits();
  if (peek() == '.') {
    token.kind = Token::Kind::Float;
    ++at;
    digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    token.kind = Token::Kind::Float;
    ++at;
    if (peek() == '+' || peek() == '-')
      ++at;
    if (!isDigit(peek()))
      fail("a number ends in the middle");
    digits();
  }
  if (peek() == 'j')
    fail("complex numbers are not supported");
  if (startsName(peek()))
    fail("a number and a name are not apart");
  token.text = text.substr(token.offset, at - token.offset);
  return token;
}

Token Lexer::string() {
  Token token;
  token.offset = at;
  token.kind = Token::Kind::String;
  char quote = text[at++];
  for (;;) {
    if (at == text.size() || peek() == '\n')
      fail("a text is not closed");
    char c = text[at++];
    if (c == quote)
      return token;
    if (c != '\\') {
      token.text += c;
      continue;
    }
    constexpr std::pair<char, char> escapes[] = {
        {'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''},
        {'"', '"'},  {'a', '\a'}, {'b', '\b'}, {'f', '\f'},  {'v', '\v'}};
    bool isKnown = false;
    for (auto [escape, value] : escapes)
      if (peek() == escape) {
        token.text += value;
        ++at;
        isKnown = true;
        break;
      }
    if (isKnown)
      continue;
    // Three octal digits, in which PyTorch's printer writes other characters.
    int value = 0, count = 0;
    for (; count < 3 && peek() >= '0' && peek() <= '7'; ++count)
      value = 8 * value + (text[at++] - '0');
    if (count == 0 || value > 255)
      fail("an escape in a text is not understood");
    token.text += static_cast<char>(value);
  }
}

} // namespace polyrank::frontends::torchscript
