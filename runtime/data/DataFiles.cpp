// Expands patterns with glob(3), and parses weights.

#include "runtime/data/DataFiles.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <glob.h>
#include <set>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

Result<std::vector<std::string>> expand(const std::string &pattern) {
  if (exists(pattern) || pattern.find_first_of("*?[") == std::string::npos)
    return std::vector{pattern}; // opening it reports the error
  glob_t found{};
  int status = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv,
                                 found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (status != 0)
    return Error{"--data " + pattern + ": no file has such a name"};
  // Folder order and locale order depend on the machine, so the paths are
  // sorted bytewise.
  std::sort(paths.begin(), paths.end());
  // A Megatron pair is one source, named by its index.
  std::erase_if(paths, [&](const std::string &path) {
    return path.ends_with(".bin") &&
           std::binary_search(paths.begin(), paths.end(),
                              path.substr(0, path.size() - 4) + ".idx");
  });
  return std::move(paths);
}

} // namespace

Result<std::optional<double>> takeWeight(std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || exists(text))
    return std::optional<double>();
  double weight = 0;
  const char *end = text.data() + text.size();
  auto [last, fault] = std::from_chars(text.data() + colon + 1, end, weight);
  if (fault != std::errc() || last != end)
    return std::optional<double>();
  if (!(weight > 0 && std::isfinite(weight)))
    return Error{"--data " + text + ": the weight " + text.substr(colon + 1) +
                 " is not a number above 0; a source that is not to be read is "
                 "left out"};
  text.resize(colon);
  return std::optional(weight);
}

Result<std::vector<DataFiles>>
findDataFiles(std::span<const std::string> given) {
  std::vector<DataFiles> sources;
  std::set<std::string> seen;
  for (const std::string &text : given) {
    DataFiles source{text, {}, {}};
    std::string pattern = text;
    POLYRANK_ASSIGN(weight, takeWeight(pattern));
    source.weight = weight;
    POLYRANK_ASSIGN(paths, expand(pattern));
    source.paths = std::move(paths);
    for (const std::string &path : source.paths)
      if (!seen.insert(path).second)
        return Error{path +
                     ": is given twice; to take more of it than of "
                     "others, give weights: " +
                     path + ":2"};
    if (!sources.empty() &&
        sources[0].weight.has_value() != source.weight.has_value()) {
      bool first = sources[0].weight.has_value();
      return Error{"--data " + (first ? sources[0].given : text) +
                   " has a weight, and " + (first ? text : sources[0].given) +
                   " has none; give one to each, or to none"};
    }
    sources.push_back(std::move(source));
  }
  return std::move(sources);
}

} // namespace polyrank::runtime
