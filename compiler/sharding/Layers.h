// Names of the user's model that differ in the numbers of layers only, as one.

#pragma once

#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace polyrank::sharding {

/// transformer.h.0.attn, transformer.h.1.attn, ... -> transformer.h.[0-11].attn
class Layers {
public:
  /// Equal for names that belong together: without the layers' numbers, and
  /// without the exporter's name of the node, which follows the module's path
  /// after a slash.
  static std::string getKey(llvm::StringRef name);

  void add(llvm::StringRef name);
  /// A single name is whole.
  std::string toString() const;

private:
  std::string first;
  int count = 0;
  /// Per part of the path that is a number.
  std::vector<std::set<int>> numbers;
};

} // namespace polyrank::sharding
