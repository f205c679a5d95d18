// The user's options for the import of a model, for all formats.

#include "frontends/import/Options.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace polyrank::frontends {

Result<std::pair<std::string, InputSpec>> parseInputSpec(StringRef text) {
  auto fail = [&] {
    return Error{"`" + text.str() +
                 "` is not NAME=DTYPE[D0,D1,...], such as "
                 "input_ids=int64[8,128]"};
  };
  auto [name, type] = text.split('=');
  auto [dtype, dims] = type.split('[');
  if (name.empty() || dtype.empty() || !dims.consume_back("]"))
    return fail();
  InputSpec spec{dtype.trim().str(), {}};
  SmallVector<StringRef> parts;
  if (!dims.trim().empty())
    dims.split(parts, ',');
  for (StringRef part : parts) {
    int64_t dim;
    if (part.trim().getAsInteger(10, dim) || dim < 1)
      return fail();
    spec.shape.push_back(dim);
  }
  return std::pair(name.trim().str(), spec);
}

} // namespace polyrank::frontends
