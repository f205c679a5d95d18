// Cuts documents into rows in one pass.

#include "runtime/data/TokenRows.h"

#include <algorithm>

namespace polyrank::runtime {

TokenRows TokenRows::ofStream(uint64_t tokens, int64_t length,
                              bool haveLabels) {
  TokenRows result;
  result.length = length;
  result.rows =
      tokens > 0 ? (tokens - (haveLabels ? 1 : 0)) / uint64_t(length) : 0;
  return result;
}

TokenRows TokenRows::ofDocuments(std::span<const uint64_t> ends,
                                 DocumentRule rule, int64_t length,
                                 bool haveLabels) {
  TokenRows result;
  result.length = length;
  uint64_t begin = 0;
  int64_t room = 0; // in the last row
  for (uint64_t end : ends) {
    uint64_t inputs = end - begin - (haveLabels && end > begin ? 1 : 0);
    for (uint64_t at = begin; inputs > 0;) {
      int64_t count = std::min(inputs, uint64_t(length));
      if (rule == DocumentRule::Pad || count > room) {
        result.firsts.push_back(result.begins.size());
        room = length;
      }
      result.begins.push_back(at);
      result.counts.push_back(uint32_t(count));
      room -= count;
      at += count;
      inputs -= count;
    }
    begin = end;
  }
  result.rows = result.firsts.size();
  result.firsts.push_back(result.begins.size());
  return result;
}

uint64_t TokenRows::memoryBytes() const {
  return (firsts.capacity() + begins.capacity()) * sizeof(uint64_t) +
         counts.capacity() * sizeof(uint32_t);
}

} // namespace polyrank::runtime
