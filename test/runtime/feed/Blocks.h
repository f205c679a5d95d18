// Blocks of a feed as bytes.

#pragma once

#include "runtime/feed/FeedBlock.h"

#include <cstring>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace polyrank::runtime::test {

/// A header after its length.
inline std::string headOf(const std::string &json) {
  uint64_t length = json.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + json;
}

/// "0" for the metadata's "sample", or none.
inline std::string metadataOf(const std::string &sample) {
  return sample.empty() ? ""
                        : R"("__metadata__":{"sample":")" + sample + R"("},)";
}

/// A block with rows of one float, x.
inline std::string blockOf(const std::vector<float> &rows,
                           const std::string &sample = "") {
  std::string text = headOf(fmt::format(
      R"({{{}"x":{{"dtype":"F32","shape":[{},1],"data_offsets":[0,{}]}}}})",
      metadataOf(sample), rows.size(), 4 * rows.size()));
  text.append(reinterpret_cast<const char *>(rows.data()), 4 * rows.size());
  return text;
}

inline std::string endBlock() {
  return headOf(R"({"__metadata__":{"end":"1"}})");
}

/// The input of these blocks.
inline std::vector<InputSpec> inputX() {
  InputSpec x;
  x.name = "x";
  x.rowShape = {1};
  return {x};
}

} // namespace polyrank::runtime::test
