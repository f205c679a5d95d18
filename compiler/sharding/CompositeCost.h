// What a composite that is split on a composite factor costs.

#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/sharding/Label.h"
#include "mlir/IR/Operation.h"

namespace polyrank::sharding {

/// Of equal composites in equal layouts once.
class CompositeCosts {
public:
  /// What the parts of a composite move, laid out for this label; nullopt where
  /// they cannot be, so that the label is none.
  std::optional<int64_t> getBytes(MeshAttr mesh, mlir::Operation *op,
                                  const Label &label);

private:
  /// By the composite and its layouts, as text.
  std::map<std::string, std::optional<int64_t>> known;
};

} // namespace polyrank::sharding
