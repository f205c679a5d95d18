// The lexer of TorchScript's code.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::frontends::torchscript {

struct Token {
  enum class Kind {
    Name,
    Int,
    Float,
    String, // `text` is its value, without quotes and escapes
    Mark,   // one of ( ) [ ] { } : , . = - ->
    Newline,
    Indent,
    Dedent,
    End,
  };

  Kind kind = Kind::End;
  uint32_t offset = 0;
  std::string text;
};

/// Thrown if a text is not valid code; never leaves the parser.
struct SyntaxError {
  std::string message;
  uint32_t offset = 0;
};

/// Reads one token after another. Line breaks inside brackets are ignored;
/// indentation becomes Indent and Dedent.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  Token next();

private:
  char peek(size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }
  bool beginLine(Token &token);
  Token number();
  Token string();
  [[noreturn]] void fail(std::string message) const {
    throw SyntaxError{std::move(message), static_cast<uint32_t>(at)};
  }

  std::string_view text;
  size_t at = 0;
  bool isLineStart = true;
  int brackets = 0;
  std::vector<size_t> indents = {0};
};

} // namespace polyrank::frontends::torchscript
