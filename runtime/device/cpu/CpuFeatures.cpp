// Reads /proc/cpuinfo, in which the kernel lists the features that programs may
// use; its names differ from LLVM's in underscores and in some words.

#include "runtime/device/cpu/CpuFeatures.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

namespace polyrank::runtime {
namespace {

std::string withoutMarks(std::string_view name) {
  std::string plain;
  for (char letter : name)
    if (letter != '_' && letter != '.' && letter != '-')
      plain += letter;
  return plain;
}

std::set<std::string> readFlags() {
  std::set<std::string> flags;
  FILE *file = std::fopen("/proc/cpuinfo", "re");
  if (!file)
    return flags;
  std::string line;
  for (int letter; (letter = std::fgetc(file)) != EOF;) {
    if (letter != '\n') {
      line += char(letter);
      continue;
    }
    if (line.starts_with("flags")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;)
        flags.insert(withoutMarks(word));
      break;
    }
    line.clear();
  }
  std::fclose(file);
  return flags;
}

// LLVM's and Linux's names, if they differ in more than punctuation.
constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"sse3", "pni"},        {"lzcnt", "abm"},   {"pclmul", "pclmulqdq"},
    {"rdrnd", "rdrand"},    {"sahf", "lahflm"}, {"prfchw", "3dnowprefetch"},
    {"bmi", "bmi1"},        {"crc32", "sse42"}, {"64bit", "lm"},
    {"x87", "fpu"},         {"sha", "shani"},   {"shstk", "usershstk"},
    {"evex512", "avx512f"}, {"64bitmode", "lm"}};

} // namespace

bool cpuHas(std::string_view feature) {
  static const std::set<std::string> flags = readFlags();
  if (feature.starts_with('+'))
    feature.remove_prefix(1);
  std::string name = withoutMarks(feature);
  if (flags.count(name))
    return true;
  for (auto [ours, theirs] : aliases)
    if (ours == name)
      return flags.count(std::string(theirs)) != 0;
  return false;
}

std::vector<std::string>
missingFeatures(const std::vector<std::string> &features) {
  std::vector<std::string> missing;
  for (const std::string &feature : features)
    if (!feature.empty() && !feature.starts_with('-') && !cpuHas(feature))
      missing.push_back(feature);
  return missing;
}

} // namespace polyrank::runtime
