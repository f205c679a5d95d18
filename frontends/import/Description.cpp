// A description of a model file.

#include "frontends/import/Description.h"

#include <algorithm>
#include <tuple>

namespace polyrank::frontends {

std::vector<DescribedOp>
sortByCount(const std::map<std::string, DescribedOp> &ops) {
  std::vector<DescribedOp> result;
  for (const auto &[name, op] : ops)
    result.push_back(op);
  std::sort(result.begin(), result.end(),
            [](const DescribedOp &a, const DescribedOp &b) {
              return std::tie(b.count, a.name) < std::tie(a.count, b.name);
            });
  return result;
}

} // namespace polyrank::frontends
