// Limits on the bytes in the buckets of collectives, by kind.

#include "compiler/sharding/BucketSizes.h"
#include "support/KeyValue.h"
#include "support/Names.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::sharding;

int64_t BucketSizes::get(MovementKind kind) const {
  switch (kind) {
  case MovementKind::AllReduce:
    return allReduce;
  case MovementKind::ReduceScatter:
    return reduceScatter;
  case MovementKind::AllGather:
    return allGather;
  default:
    llvm_unreachable("a kind without buckets");
  }
}

Result<BucketSizes>
polyrank::sharding::parseBucketSizes(std::string_view text) {
  BucketSizes sizes;
  if (text == "auto") {
    sizes.areChosen = true;
    return sizes;
  }
  const std::pair<StringRef, int64_t *> parts[] = {
      {"all-reduce", &sizes.allReduce},
      {"reduce-scatter", &sizes.reduceScatter},
      {"all-gather", &sizes.allGather},
      {"first", &sizes.first}};
  for (auto [i, word] : llvm::enumerate(splitList(text, ','))) {
    // A number alone is for all kinds.
    auto pair = parsePair(word, {"KIND=MIB", "all-gather=50"});
    StringRef name = pair ? StringRef(pair->key) : StringRef();
    std::optional<double> mebibytes = numberOf(pair ? pair->value : word);
    if (!mebibytes || !(*mebibytes >= 0 && *mebibytes <= 1e6))
      return Error{"'" + std::string(word) +
                   "' has no number of MiB from 0 to 1e6, as in 25 or "
                   "all-gather=50,reduce-scatter=25"};
    auto bytes = static_cast<int64_t>(*mebibytes * (1 << 20));
    if (!pair) {
      if (i > 0)
        return Error{"'" + std::string(word) +
                     "' does not say of which kind; a number for all kinds "
                     "stands in front of the others"};
      sizes.allReduce = sizes.reduceScatter = sizes.allGather = bytes;
      continue;
    }
    const auto *part = llvm::find_if(
        parts, [&](const auto &each) { return each.first == name; });
    if (part == std::end(parts))
      return Error{"'" + name.str() +
                   "' has no buckets; all-reduce, reduce-scatter and "
                   "all-gather have, and 'first' is the first of gradients" +
                   nearestWords(name.str(), {"all-reduce", "reduce-scatter",
                                             "all-gather", "first"})};
    *part->second = bytes;
  }
  return sizes;
}
