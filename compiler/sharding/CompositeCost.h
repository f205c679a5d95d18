// The cost of a composite that is split on a composite factor.

#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/sharding/Candidate.h"
#include "mlir/IR/Operation.h"

namespace polyrank::sharding {

/// Costs of composites. Equal composites in equal layouts are computed once.
class CompositeCosts {
public:
  /// The bytes that one device sends to compute the composite by its parts,
  /// with operands and results in the candidate's layouts; nullopt if the parts
  /// cannot be laid out so, which rules the candidate out.
  std::optional<int64_t> getBytes(MeshAttr mesh, mlir::Operation *op,
                                  const Candidate &candidate);

private:
  /// The key is the composite with its layouts, as text.
  std::map<std::string, std::optional<int64_t>> known;
};

} // namespace polyrank::sharding
