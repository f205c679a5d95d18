// The syntax of --mesh.

#include "compiler/strategy/MeshAxes.h"

#include "dialects/sharding/Layout.h"
#include "support/KeyValue.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::strategy;

Result<MeshAxes> polyrank::strategy::parseMeshAxes(std::string_view text) {
  constexpr PairForm form{"AXIS=SIZE", "data=2,tensor=4"};
  constexpr int64_t limit = sharding::MeshAttr::maxDevices;
  POLYRANK_ASSIGN(pairs, parsePairs(text, form));
  MeshAxes axes;
  int64_t devices = 1;
  for (auto [key, value] : pairs) {
    MeshAxis axis{std::string(key)};
    auto fail = [&](const std::string &what) {
      return Error{"axis '" + axis.name + "' " + what};
    };
    std::optional<int64_t> size = integerOf(value);
    if (!size)
      return notPair(axis.name + "=" + std::string(value), form);
    axis.size = *size;
    if (!sharding::MeshAttr::isAxisName(axis.name))
      return fail("has other characters than letters, digits and _");
    if (axis.size < 1)
      return fail("has size " + std::string(value) + "; sizes are at least 1");
    if (findAxis(axes, axis.name))
      return fail("is given twice");
    if (axis.size > limit / devices)
      return Error{"more than " + std::to_string(limit) + " ranks"};
    devices *= axis.size;
    axes.push_back(std::move(axis));
  }
  return axes;
}

std::string polyrank::strategy::toString(const MeshAxes &axes) {
  std::string text;
  for (const MeshAxis &axis : axes)
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

const MeshAxis *polyrank::strategy::findAxis(const MeshAxes &axes,
                                             std::string_view name) {
  auto found = llvm::find_if(
      axes, [&](const MeshAxis &axis) { return axis.name == name; });
  return found == axes.end() ? nullptr : &*found;
}

sharding::MeshAttr polyrank::strategy::toAttribute(MLIRContext &context,
                                                   const MeshAxes &axes) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : axes) {
    names.push_back(StringAttr::get(&context, axis.name));
    sizes.push_back(axis.size);
  }
  return sharding::MeshAttr::get(&context, names, sizes);
}
