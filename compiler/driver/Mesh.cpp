// The syntax of --mesh.

#include "compiler/driver/Mesh.h"

#include "support/KeyValue.h"

using namespace mlir;
using namespace polyrank;

Result<sharding::MeshAttr> polyrank::driver::parseMesh(MLIRContext &context,
                                                       StringRef text) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  constexpr int64_t limit = sharding::MeshAttr::maxDevices;
  int64_t devices = 1;
  constexpr PairForm form{"AXIS=SIZE", "data=2,tensor=4"};
  auto pairs = parsePairs(text, form);
  if (!pairs)
    return Error{"--mesh: " + pairs.error().message};
  for (auto [key, value] : *pairs) {
    StringRef name = key, number = value;
    auto given = integerOf(value);
    if (!given)
      return Error{"--mesh: " +
                   notPair((name + "=" + number).str(), form).message};
    int64_t size = *given;
    if (!sharding::MeshAttr::isAxisName(name))
      return Error{"--mesh: axis '" + name.str() +
                   "' has other characters than letters, digits and _"};
    if (size < 1)
      return Error{"--mesh: axis '" + name.str() + "' has size " +
                   number.str() + "; sizes are at least 1"};
    auto attribute = StringAttr::get(&context, name);
    if (llvm::is_contained(names, attribute))
      return Error{"--mesh: axis '" + name.str() + "' is given twice"};
    if (size > limit / devices)
      return Error{"--mesh: more than " + std::to_string(limit) + " ranks"};
    devices *= size;
    names.push_back(attribute);
    sizes.push_back(size);
  }
  return sharding::MeshAttr::get(&context, names, sizes);
}
