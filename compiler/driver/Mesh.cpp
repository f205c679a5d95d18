// The little language of --mesh.

#include "compiler/driver/Mesh.h"

using namespace mlir;
using namespace polyrank;

FailureOr<sharding::MeshAttr> polyrank::driver::parseMesh(MLIRContext &context,
                                                          StringRef text,
                                                          std::string &error) {
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
    if (name.empty() || number.empty() || number.getAsInteger(10, size)) {
      error = "--mesh: '" + part.trim().str() +
              "' is not AXIS=SIZE; write for instance data=2,tensor=4";
      return failure();
    }
    if (!sharding::MeshAttr::isAxisName(name)) {
      error = "--mesh: axis '" + name.str() +
              "' has other characters than letters, digits and _";
      return failure();
    }
    if (size < 1) {
      error = "--mesh: axis '" + name.str() + "' has size " + number.str() +
              "; sizes are at least 1";
      return failure();
    }
    auto attribute = StringAttr::get(&context, name);
    if (llvm::is_contained(names, attribute)) {
      error = "--mesh: axis '" + name.str() + "' is given twice";
      return failure();
    }
    if (size > limit / devices) {
      error = "--mesh: more than " + std::to_string(limit) + " ranks";
      return failure();
    }
    devices *= size;
    names.push_back(attribute);
    sizes.push_back(size);
  }
  return sharding::MeshAttr::get(&context, names, sizes);
}
