// Names in the user's model: suggestions for a mistyped one, groups of names
// that differ only in layer numbers, and names in the log.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// Formats a shape as "[4,128]".
std::string shapeText(std::span<const int64_t> shape);

/// The optimal string alignment distance: the least number of characters to
/// insert, remove, replace or swap with the next to turn `a` into `b`, each at
/// most once (Damerau, A technique for computer detection and correction of
/// spelling errors, 1964).
size_t editDistance(std::string_view a, std::string_view b);

/// The up to three names closest to `pattern`, as "; nearest: 'a', 'b'".
/// Compares with the closest run of dot-separated parts of a name, ignoring the
/// numbers of layers; a name with a part that begins with `pattern` counts as
/// close too. The closest name is always listed, to show what names look like.
std::string nearestNames(std::string_view pattern,
                         std::span<const std::string> names);

/// The words of a short list that `word` may be a misspelling of, in the same
/// form; empty if more than a third of its characters differ.
std::string nearestWords(std::string_view word,
                         std::span<const std::string> words);
inline std::string nearestWords(std::string_view word,
                                std::initializer_list<std::string> words) {
  return nearestWords(word, std::span(words.begin(), words.end()));
}

/// A group of names that differ only in layer numbers: transformer.h.0.attn,
/// transformer.h.1.attn, ... -> transformer.h.[0-11].attn
///
/// Names may be quoted after an op: matmul 'transformer.h.0.attn/node_3'.
class LayerNames {
public:
  /// Returns a key that is equal for names of one group: the name without layer
  /// numbers and, in quotes, without the exporter's node name, which follows
  /// the path of the module after a slash.
  static std::string getKey(std::string_view name);

  void add(std::string_view name);
  /// A group of one name gives the whole name.
  std::string toString() const;
  size_t size() const { return count; }

private:
  std::string first;
  size_t count = 0;
  /// For each part of the path that is a number, the values it takes.
  std::vector<std::set<int>> numbers;
};

/// The name of a scalar output of the model in logs and reports: its own name,
/// or output(NAME) if the log has another field of that name.
std::string metricName(std::string_view output);
/// The name of the metric with the number of targets over which `metric` is a
/// mean.
std::string countName(std::string_view metric);

/// Lists names as "h.[0-11].ln_1.weight, wpe.weight": names that differ only in
/// layer numbers are grouped, and groups beyond a limit are only counted.
std::string groupNames(std::span<const std::string> names);

} // namespace polyrank
