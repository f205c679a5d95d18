// Mutates texts by words and lines, so that more of a fuzzer's inputs are code.

#pragma once

#include <cctype>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace polyrank::fuzz {

/// A deterministic random choice, given a seed.
class Chance {
public:
  explicit Chance(unsigned seed) : engine(seed) {}

  /// Returns a number below `count`, which is not 0.
  size_t operator()(size_t count) { return engine() % count; }
  template <typename T>
  auto &of(T &values) {
    return values[(*this)(std::size(values))];
  }
  /// Returns a boundary value.
  int64_t number() {
    static constexpr int64_t numbers[] = {
        0,         1,         2,         3,
        4,         5,         6,         7,
        8,         -1,        -2,        -3,
        16,        31,        32,        63,
        64,        65,        127,       255,
        256,       1024,      1 << 16,   1 << 20,
        1LL << 31, 1LL << 32, 1LL << 40, -(1LL << 31),
        1LL << 61, 1LL << 62, INT64_MAX, INT64_MIN};
    return of(numbers);
  }

private:
  std::minstd_rand engine;
};

inline size_t copyTo(const std::string &text, uint8_t *data, size_t maxSize) {
  size_t size = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), size);
  return size;
}

/// Splits a text into names, numbers, and single characters.
inline std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (isWord(text[i]))
      while (end < text.size() && isWord(text[end]))
        ++end;
    words.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

inline std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.emplace_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

inline std::string joined(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += part;
  return text;
}

/// Makes one change to `data` as the text of a program: to a word, a line, or
/// sometimes bytes. `calls` has the names that may replace "torch.add".
inline size_t mutateCode(uint8_t *data, size_t size, size_t maxSize,
                         unsigned seed, const std::vector<std::string> &calls) {
  Chance chance(seed);
  std::string_view text(reinterpret_cast<const char *>(data), size);
  size_t kind = chance(10);
  if (kind == 0 || size == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  if (kind <= 2) {
    std::vector<std::string> lines = linesOf(text);
    size_t at = chance(lines.size());
    std::string line = chance.of(lines);
    if (kind == 1 && lines.size() > 1)
      lines.erase(lines.begin() + at);
    else
      lines.insert(lines.begin() + at, line);
    return copyTo(joined(lines), data, maxSize);
  }
  std::vector<std::string> words = wordsOf(text);
  auto kindOf = [](const std::string &word) {
    unsigned char first = word[0];
    if (std::isdigit(first))
      return 0;
    return std::isalpha(first) || first == '_' ? 1 : 2;
  };
  for (size_t changes = 1 + chance(3); changes > 0; --changes) {
    // Blanks and punctuation are rarely changed.
    size_t at = chance(words.size());
    for (int tries = 0; tries < 8 && kindOf(words[at]) == 2; ++tries)
      at = chance(words.size());
    std::string &word = words[at];
    size_t what = chance(6);
    if (kindOf(word) == 0 && what < 3) {
      word = what == 0 ? std::to_string(double(chance.number()) / 2)
                       : std::to_string(chance.number());
    } else if (what >= 4 && word.starts_with("torch.")) {
      word = chance.of(calls);
    } else if (what == 3) {
      // Replaces the value by another one.
      static const char *const values[] = {
          "None",   "True",   "[]",     "[1, 2]",       "self.m",
          "self.i", "self.n", "x",      "-1",           "self",
          "\"a\"",  "0.5",    "(1, 2)", "CONSTANTS.c0", "inf",
          "nan",    "self.e", "self.q", "self.sizes",   "self.v"};
      word = chance.of(values);
    } else {
      // Replaces the word by another one of the same kind.
      for (int tries = 0; tries < 16; ++tries)
        if (const std::string &other = chance.of(words);
            other != word && kindOf(other) == kindOf(word)) {
          word = std::string(other);
          break;
        }
    }
  }
  return copyTo(joined(words), data, maxSize);
}

/// Inserts some lines of `other` into `text`.
inline size_t mixLines(std::string_view text, std::string_view other,
                       uint8_t *out, size_t maxSize, unsigned seed) {
  Chance chance(seed);
  std::vector<std::string> lines = linesOf(text), more = linesOf(other);
  if (lines.empty() || more.empty())
    return copyTo(std::string(text), out, maxSize);
  size_t from = chance(more.size()), count = 1 + chance(more.size() - from);
  lines.insert(lines.begin() + chance(lines.size() + 1), more.begin() + from,
               more.begin() + from + count);
  return copyTo(joined(lines), out, maxSize);
}

} // namespace polyrank::fuzz
