// Parses lists of hosts, and counts their hosts before it makes any.

#include "runtime/place/NodeList.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// Numbers that differ in their last digits: "01-03". One number is a range of
/// one.
struct Range {
  uint64_t first = 0, last = 0;
  size_t width = 0; // digits, with leading zeros

  uint64_t count() const { return last - first + 1; }
};

/// A part of a name: text, or a choice of numbers.
struct Part {
  std::string text;
  std::vector<Range> ranges; // empty: the part is text
  uint64_t count = 1;        // of choices

  std::vector<std::string> choices() const {
    if (ranges.empty())
      return {text};
    std::vector<std::string> texts;
    for (const Range &range : ranges)
      for (uint64_t number = range.first; number <= range.last; ++number)
        texts.push_back(fmt::format("{:0{}}", number, range.width));
    return texts;
  }
};

bool isOfName(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' ||
         letter == '_';
}

class Parser {
public:
  explicit Parser(std::string_view list) : list(list) {}

  Result<std::vector<std::string>> run() {
    std::vector<std::string> hosts;
    for (;;) {
      POLYRANK_ASSIGN(parts, entry());
      if (Result<void> added = expand(parts, hosts); !added)
        return added.error();
      if (at == list.size())
        return std::move(hosts);
      ++at; // a comma
    }
  }

private:
  Error wrong(const std::string &what) const {
    constexpr size_t shown = 80;
    std::string text(list.substr(0, shown));
    return {fmt::format("the list of hosts '{}{}' is wrong at character {}: {}",
                        text, list.size() > shown ? ".." : "", at + 1, what)};
  }

  bool isAt(char letter) const {
    return at < list.size() && list[at] == letter;
  }

  Result<std::vector<Part>> entry() {
    std::vector<Part> parts;
    while (at < list.size() && list[at] != ',') {
      if (list[at] == '[') {
        POLYRANK_ASSIGN(choice, brackets());
        parts.push_back(std::move(choice));
        continue;
      }
      if (!isOfName(list[at]))
        return wrong("a name has letters, digits, '.', '-' and '_' alone");
      if (parts.empty() || !parts.back().ranges.empty())
        parts.emplace_back();
      parts.back().text += list[at++];
      if (parts.back().text.size() > longestHost)
        return nameIsTooLong();
    }
    if (parts.empty())
      return wrong("a host is missing");
    return std::move(parts);
  }

  Result<Part> brackets() {
    Part part;
    part.count = 0;
    ++at; // '['
    for (;;) {
      POLYRANK_ASSIGN(found, range());
      part.ranges.push_back(found);
      part.count += found.count();
      if (part.count > mostHosts)
        return tooMany();
      if (isAt(']'))
        break;
      if (!isAt(','))
        return wrong("expected ',' or ']'");
      ++at;
    }
    ++at;
    return part;
  }

  Result<Range> range() {
    Range found;
    size_t begin = at;
    POLYRANK_ASSIGN(first, number());
    found.width = at - begin;
    found.first = found.last = first;
    if (!isAt('-'))
      return found;
    ++at;
    POLYRANK_ASSIGN(last, number());
    if (last < first)
      return wrong(fmt::format("the range ends with {} before it begins with "
                               "{}",
                               last, first));
    found.last = last;
    if (found.count() > mostHosts)
      return tooMany();
    return found;
  }

  Result<uint64_t> number() {
    constexpr size_t mostDigits = 18; // so that it fits
    size_t end = at;
    while (end < list.size() && list[end] >= '0' && list[end] <= '9')
      ++end;
    if (end == at)
      return wrong("a number is missing");
    if (end - at > mostDigits)
      return wrong(fmt::format("a number has more than {} digits", mostDigits));
    uint64_t value = 0;
    std::from_chars(list.data() + at, list.data() + end, value);
    at = end;
    return value;
  }

  Error tooMany() const {
    return wrong(fmt::format("it has more than {} hosts", mostHosts));
  }

  /// Adds the hosts of an entry.
  Result<void> expand(const std::vector<Part> &parts,
                      std::vector<std::string> &hosts) const {
    if (parts.size() > longestHost)
      return nameIsTooLong();
    uint64_t count = 1;
    for (const Part &part : parts)
      if ((count *= part.count) > mostHosts) // each factor is at most that
        return tooMany();
    if (hosts.size() + count > mostHosts)
      return tooMany();
    std::vector<std::string> names{""};
    for (const Part &part : parts) {
      std::vector<std::string> longer, choices = part.choices();
      for (const std::string &name : names)
        for (const std::string &choice : choices)
          longer.push_back(name + choice);
      names = std::move(longer);
    }
    for (const std::string &name : names)
      if (name.size() > longestHost)
        return nameIsTooLong();
    hosts.insert(hosts.end(), names.begin(), names.end());
    return {};
  }

  Error nameIsTooLong() const {
    return wrong(
        fmt::format("a name is longer than {} characters", longestHost));
  }

  std::string_view list;
  size_t at = 0;
};

} // namespace

Result<std::vector<std::string>> expandNodeList(std::string_view list) {
  return Parser(list).run();
}

} // namespace polyrank::runtime
