// The syntax of --mesh.

#include "compiler/driver/Mesh.h"

using namespace mlir;
using namespace polyrank;

Result<sharding::MeshAttr> polyrank::driver::parseMesh(MLIRContext &context,
                                                       StringRef text) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  constexpr int64_t limit = sharding::MeshAttr::maxDevices;
  int64_t devices = 1;
  SmallVector<StringRef> parts;
  if (!text.trim().empty())
    text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, number] = part.trim().split('=');
    int64_t size = 0;
    if (name.empty() || number.empty() || number.getAsInteger(10, size))
      return Error{"--mesh: '" + part.trim().str() +
                   "' is not AXIS=SIZE; write for instance data=2,tensor=4"};
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
