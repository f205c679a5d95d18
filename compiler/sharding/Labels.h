// What a node may do: the layouts of its operands and results.

#pragma once

#include "compiler/sharding/CompositeCost.h"
#include "compiler/sharding/Extents.h"
#include "compiler/sharding/Label.h"
#include "compiler/sharding/Reach.h"

namespace polyrank::sharding {

/// What the node may do with one atom.
llvm::SmallVector<Choice> choicesOf(const SideTable &table, const Reach &reach,
                                    const Node &node, int atom);

/// The node's label where atom i does what `choices[i]` says; none where it
/// cannot be laid out so. Split dims are padded to `extents`, in which
/// connected dims agree, or, where it is null, to the least extent that the
/// node needs.
std::optional<Label> makeLabel(const SideTable &table, const Extents *extents,
                               const Node &node,
                               llvm::ArrayRef<Choice> choices);

/// Per node its *labels*, that is the layouts of its operands and results in
/// which each atom splits one factor that it reaches, or passes as a partial,
/// or is replicated. Labels that leave an atom unused which reaches the node
/// violate its priority; only the least violations are of interest. Emits an
/// error where a node has none.
mlir::FailureOr<Labels> enumerateLabels(const SideTable &table,
                                        const Reach &reach,
                                        const Extents &extents,
                                        CompositeCosts &composites);

} // namespace polyrank::sharding
