// Names in the user's model: which are near to a mistaken one, and which differ
// in the numbers of layers only; names in the log.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// "[4,128]"
std::string shapeText(std::span<const int64_t> shape);

/// The least number of characters to insert, remove, replace or swap with the
/// next that makes `a` into `b`, none of them twice (optimal string alignment:
/// Damerau, A technique for computer detection and correction of spelling
/// errors, 1964).
size_t editDistance(std::string_view a, std::string_view b);

/// The up to three names closest to `pattern`, as "; nearest: 'a', 'b'". Of a
/// name those parts between its dots are compared that are nearest, and layers'
/// numbers are taken as equal; names of which a part begins with `pattern` are
/// near too. The closest one is named however far it is: it shows what names
/// look like.
std::string nearestNames(std::string_view pattern,
                         std::span<const std::string> names);

/// The words of a short list that `word` may have been meant to be, in the same
/// form; nothing where more than a third of its characters are others.
std::string nearestWords(std::string_view word,
                         std::span<const std::string> words);
inline std::string nearestWords(std::string_view word,
                                std::initializer_list<std::string> words) {
  return nearestWords(word, std::span(words.begin(), words.end()));
}

/// transformer.h.0.attn, transformer.h.1.attn, ... -> transformer.h.[0-11].attn
///
/// Names may stand in quotes behind an op: matmul
/// 'transformer.h.0.attn/node_3'.
class LayerNames {
public:
  /// Equal for names that belong together: without the layers' numbers, and in
  /// quotes without the exporter's name of the node, which follows the module's
  /// path after a slash.
  static std::string getKey(std::string_view name);

  void add(std::string_view name);
  /// A single name is whole.
  std::string toString() const;
  size_t size() const { return count; }

private:
  std::string first;
  size_t count = 0;
  /// Per part of the path that is a number.
  std::vector<std::set<int>> numbers;
};

/// What a scalar output of the model is called in logs and reports: its name,
/// or output(NAME) where a line of the log has a field of that name.
std::string metricName(std::string_view output);
/// The metric that says over how many targets this one is a mean.
std::string countName(std::string_view metric);

/// "h.[0-11].ln_1.weight, wpe.weight": names that differ in their layers only
/// are one, and those beyond some are counted.
std::string groupNames(std::span<const std::string> names);

} // namespace polyrank
