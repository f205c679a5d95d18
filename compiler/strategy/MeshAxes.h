// The axes of a mesh as text: data=2,tensor=2.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class MLIRContext;
}
namespace polyrank::sharding {
class MeshAttr;
}

namespace polyrank::strategy {

/// A named axis with its number of devices, at least 1.
struct MeshAxis {
  std::string name;
  int64_t size = 1;

  friend bool operator==(const MeshAxis &, const MeshAxis &) = default;
};

/// The axes of a mesh, major to minor. None: one device.
using MeshAxes = std::vector<MeshAxis>;

/// Parses the axes. A name has letters, digits and _, and is given once; there
/// are at most 2^20 devices. Errors name the axis, its text, and what is
/// expected.
Result<MeshAxes> parseMeshAxes(std::string_view text);

/// Returns "data=2,tensor=2".
std::string toString(const MeshAxes &axes);

/// Returns the axis of this name, or null.
const MeshAxis *findAxis(const MeshAxes &axes, std::string_view name);

/// The same axes as an attribute.
sharding::MeshAttr toAttribute(mlir::MLIRContext &context,
                               const MeshAxes &axes);

} // namespace polyrank::strategy
