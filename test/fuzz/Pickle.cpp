// Any bytes as a pickle: a value that can be walked, or a message.

#include "frontends/archive/Pickle.h"
#include "test/fuzz/Input.h"

#include <set>

using namespace polyrank;
using namespace polyrank::frontends::archive;

namespace {

/// Visits each value once; no path is longer than the reader allows.
void visit(const PickleValue &value, std::set<const PickleValue *> &seen,
           size_t depth) {
  if (depth > Pickle::maxDepth)
    std::abort();
  if (!seen.insert(&value).second)
    return;
  if (describe(value).empty())
    std::abort();
  value.find("weight");
  for (const PickleValue *element : value.elements)
    visit(*element, seen, depth + 1);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto pickle =
      Pickle::read(std::as_bytes(std::span(data, size)), "m.pt, 'data.pkl'");
  if (!pickle) {
    if (pickle.error().message.find("m.pt, 'data.pkl': ") != 0)
      std::abort();
    return 0;
  }
  std::set<const PickleValue *> seen;
  visit(pickle->root(), seen, 0);
  return 0;
}
