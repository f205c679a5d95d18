// Names in the user's model: suggestions for a mistyped one, and groups of
// names that differ only in layer numbers.

#include "support/Names.h"

#include <algorithm>
#include <numeric>

namespace polyrank {

std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d == 0 ? "" : ",") + std::to_string(shape[d]);
  return text + "]";
}
namespace {

/// The text between dots and quotes, with the delimiter after it; a part of
/// digits is the number of a layer.
struct Part {
  std::string_view text;
  char delimiter = 0; // 0 for the last

  bool isNumber() const {
    constexpr size_t mostDigits = 8;
    return !text.empty() && text.size() <= mostDigits &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
  }
};

std::vector<Part> split(std::string_view name) {
  std::vector<Part> parts;
  for (size_t end; (end = name.find_first_of(".'")) != name.npos;
       name.remove_prefix(end + 1))
    parts.push_back({name.substr(0, end), name[end]});
  parts.push_back({name});
  return parts;
}

/// Replaces each layer number by what `toText` returns.
template <typename ToText>
std::string replaceNumbers(std::string_view name, ToText toText) {
  std::string text;
  for (const Part &part : split(name)) {
    text += part.isNumber() ? toText() : std::string(part.text);
    if (part.delimiter)
      text += part.delimiter;
  }
  return text;
}

std::string withoutNode(std::string_view name) {
  size_t slash = name.rfind('/');
  return slash != name.npos && name.ends_with('\'')
             ? std::string(name.substr(0, slash)) + "'"
             : std::string(name);
}

std::string toRange(const std::set<int> &numbers) {
  if (numbers.size() == 1)
    return std::to_string(*numbers.begin());
  int first = *numbers.begin(), last = *numbers.rbegin();
  if (last - first + 1 == static_cast<int>(numbers.size()))
    return "[" + std::to_string(first) + "-" + std::to_string(last) + "]";
  std::string text;
  for (int number : numbers)
    text += (text.empty() ? "{" : ",") + std::to_string(number);
  return text + "}";
}

/// The distance of a name from what the user wrote.
struct Distance {
  size_t edits = 0;
  /// True if parts of the name begin with what was written, and are longer.
  bool isLonger = false;
  /// The number of characters of the name that were not compared.
  size_t rest = 0;

  auto operator<=>(const Distance &) const = default;
};

using Ranked = std::set<std::pair<Distance, std::string>>;

/// Lists the names that are at most `most` edits away; with `always`, the
/// nearest in any case.
std::string listNearest(const Ranked &ranked, size_t most, bool always) {
  constexpr size_t mostNames = 3;
  std::string result;
  size_t listed = 0;
  for (const auto &[distance, name] : ranked) {
    if (listed == mostNames || ((listed || !always) && distance.edits > most))
      break;
    result += (listed++ ? ", '" : "; nearest: '") + name + "'";
  }
  return result;
}

/// Returns true if `part` of a name begins with what was written, or does so
/// after an underscore: `emb` of embedding, `attn` of c_attn.
bool beginsWith(std::string_view part, std::string_view wanted) {
  constexpr size_t least = 2; // one character says nothing
  wanted = wanted.substr(0, wanted.find_last_not_of('*') + 1);
  if (wanted.empty() || part == wanted)
    return true;
  if (wanted.size() < least)
    return false;
  for (size_t at = 0; (at = part.find(wanted, at)) != part.npos; ++at)
    if (at == 0 || part[at - 1] == '_')
      return true;
  return false;
}

/// The distance of the nearest run of parts of `name`, among the runs with
/// about as many parts as `wanted` and the runs at the end: `emb` is no edit
/// away from `model.emb.weight`, and `c_atn` one from `attn.c_attn.weight`.
Distance distanceTo(std::string_view name, std::string_view wanted) {
  std::vector<Part> parts = split(name), sought = split(wanted);
  Distance nearest{name.size() + wanted.size()}; // more than any distance
  for (size_t first = 0; first < parts.size(); ++first)
    for (size_t last = first; last < parts.size(); ++last) {
      size_t count = last - first + 1;
      if ((count + 1 < sought.size() || count > sought.size() + 1) &&
          last + 1 != parts.size())
        continue;
      const char *begin = parts[first].text.data();
      std::string_view run(begin, parts[last].text.data() - begin +
                                      parts[last].text.size());
      size_t rest = name.size() - run.size();
      nearest = std::min(nearest, {editDistance(run, wanted), false, rest});
      if (count == sought.size() &&
          std::equal(sought.begin(), sought.end(), parts.begin() + first,
                     [](const Part &start, const Part &part) {
                       return beginsWith(part.text, start.text);
                     }))
        nearest = std::min(nearest, {0, true, rest});
    }
  return nearest;
}

/// The most edits: a third of the characters, at least one; the dashes of an
/// option do not count.
size_t mostEdits(std::string_view wanted) {
  size_t dashes = std::min(wanted.find_first_not_of('-'), wanted.size());
  return (wanted.size() - dashes + 1) / 3;
}

} // namespace

size_t editDistance(std::string_view a, std::string_view b) {
  // The distances between the first i characters of a and the first j of b:
  // rows i - 2 to i.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string nearestNames(std::string_view pattern,
                         std::span<const std::string> names) {
  auto star = [] { return std::string("*"); };
  std::string wanted = replaceNumbers(pattern, star);
  // The user may have left out leading modules.
  wanted.erase(0, std::min(wanted.find_first_not_of("*."), wanted.size()));
  wanted.erase(wanted.find_last_not_of("*.") + 1);
  std::set<std::string> known; // layers that are alike count once
  for (const std::string &name : names)
    known.insert(replaceNumbers(name, star));
  Ranked ranked;
  for (const std::string &name : known)
    ranked.insert({distanceTo(name, wanted), name});
  return listNearest(ranked, mostEdits(wanted), /*always=*/true);
}

std::string nearestWords(std::string_view word,
                         std::span<const std::string> words) {
  Ranked ranked;
  for (const std::string &known : words)
    ranked.insert({{editDistance(known, word)}, known});
  return listNearest(ranked, mostEdits(word), /*always=*/false);
}

std::string LayerNames::getKey(std::string_view name) {
  return replaceNumbers(withoutNode(name), [] { return std::string("#"); });
}

void LayerNames::add(std::string_view name) {
  if (!count++)
    first = name;
  std::string path = withoutNode(name);
  size_t position = 0;
  for (const Part &part : split(path))
    if (part.isNumber()) {
      numbers.resize(std::max(numbers.size(), position + 1));
      numbers[position++].insert(std::stoi(std::string(part.text)));
    }
}

std::string LayerNames::toString() const {
  if (count <= 1)
    return first;
  size_t position = 0;
  return replaceNumbers(withoutNode(first),
                        [&] { return toRange(numbers[position++]); });
}

std::string groupNames(std::span<const std::string> names) {
  // Groups in the order in which they first occur.
  std::vector<std::pair<std::string, LayerNames>> groups;
  for (const std::string &name : names) {
    std::string key = LayerNames::getKey(name);
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto &each) { return each.first == key; });
    if (group == groups.end())
      group = groups.insert(groups.end(), {key, {}});
    group->second.add(name);
  }
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), most); ++i)
    text += (text.empty() ? "" : ", ") + groups[i].second.toString();
  if (groups.size() > most)
    text += " and " + std::to_string(groups.size() - most) + " more such names";
  return text;
}

std::string metricName(std::string_view output) {
  for (std::string_view field :
       {"step", "loss", "count", "grad_norm", "loss_scale", "skipped",
        "skipped_total", "lr", "not_finite", "seconds", "samples_per_second",
        "tokens_per_second", "communication_share"})
    if (output == field)
      return "output(" + std::string(output) + ")";
  return std::string(output);
}

std::string countName(std::string_view metric) {
  return metric == "loss" ? "count" : std::string(metric) + ".count";
}

} // namespace polyrank
