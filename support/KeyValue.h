// KEY=VALUE: the grammar of all options that have parts.
//
//   --dim batch=8              one pair; such options are repeatable
//   --mesh data=2,tensor=2     pairs, separated by commas
//   --link data=10:25          a value of several numbers
//   --stage 'h.[0-5].*=0'      a key that may itself contain '='
//
// A call, adamw(lr=1e-3,betas=(0.9,0.95)), has pairs between its parentheses;
// its values may contain commas, so that compiler/training/Call.h divides them.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace polyrank {

/// One pair, a part of the text that it was parsed from. Neither side is empty,
/// and blanks around both are removed.
struct KeyValue {
  std::string_view key, value;
};

/// The names of the two sides in an error, "AXIS=SIZE", and an example,
/// "data=2,tensor=4".
struct PairForm {
  const char *form, *example;
};

/// Which '=' of several separates key and value. Patterns are keys that may
/// contain others.
enum class Separator { First, Last };

/// Parses one pair. The error is "'data' is not AXIS=SIZE, as in
/// data=2,tensor=4".
Result<KeyValue> parsePair(std::string_view text, const PairForm &form,
                           Separator separator = Separator::First);

/// Parses pairs separated by commas; none from an empty text. The error is that
/// of the first wrong pair.
Result<std::vector<KeyValue>> parsePairs(std::string_view text,
                                         const PairForm &form);

/// Returns the error of parsePair for a text whose sides are wrong in another
/// way, such as a size that is no number.
Error notPair(std::string_view text, const PairForm &form);

/// Splits at each separator, and removes the blanks around each part.
std::vector<std::string_view> splitList(std::string_view text, char separator);

/// The number that the whole text is; nothing if it is none.
/// @{
std::optional<double> numberOf(std::string_view text);
std::optional<int64_t> integerOf(std::string_view text);
/// @}

/// `count` numbers separated by colons, "10:25"; nothing for other texts.
std::optional<std::vector<double>> numbersOf(std::string_view text,
                                             size_t count);

/// The text without the blanks at both ends.
std::string_view trim(std::string_view text);

} // namespace polyrank
