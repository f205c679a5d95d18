// The user's options for the import of a model, for all formats.

#include "frontends/import/Options.h"

#include "support/KeyValue.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace polyrank::frontends {

Result<std::pair<std::string, InputSpec>> parseInputSpec(StringRef text) {
  constexpr PairForm form{"NAME=DTYPE[D0,D1,...]", "input_ids=int64[8,128]"};
  auto fail = [&] { return notPair(text, form); };
  POLYRANK_ASSIGN(pair, parsePair(text, form));
  auto [dtype, dims] = StringRef(pair.value).split('[');
  if (dtype.empty() || !dims.consume_back("]"))
    return fail();
  InputSpec spec{dtype.trim().str(), {}};
  SmallVector<StringRef> parts;
  if (!dims.trim().empty())
    dims.split(parts, ',');
  for (StringRef part : parts) {
    auto dim = integerOf(part.trim());
    if (!dim || *dim < 1)
      return fail();
    spec.shape.push_back(*dim);
  }
  return std::pair(std::string(pair.key), spec);
}

} // namespace polyrank::frontends
