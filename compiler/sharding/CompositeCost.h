// What a composite that is split on a composite factor costs.

#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/sharding/Label.h"
#include "mlir/IR/Operation.h"

namespace polyrank::sharding {

/// Costs of composites; those of equal composites in equal layouts are computed
/// once.
class CompositeCosts {
public:
  /// The bytes that one device sends to compute the composite by its parts,
  /// with operands and results in the label's layouts; nullopt where the parts
  /// cannot be laid out so, and the composite cannot have this label.
  std::optional<int64_t> getBytes(MeshAttr mesh, mlir::Operation *op,
                                  const Label &label);

private:
  /// The key is the composite with its layouts, as text.
  std::map<std::string, std::optional<int64_t>> known;
};

} // namespace polyrank::sharding
