// Enumerates the candidates of nodes: the layouts of their operands and
// results.

#pragma once

#include "compiler/sharding/Candidate.h"
#include "compiler/sharding/CompositeCost.h"
#include "compiler/sharding/Extents.h"
#include "compiler/sharding/Reach.h"

namespace polyrank::sharding {

/// The choices that the node has for one sub-axis.
llvm::SmallVector<Choice> choicesOf(const SideTable &table, const Reach &reach,
                                    const Node &node, int subAxis);

/// Returns true if result number `result` of an op with this rule is a partial
/// value because of the choice to split a factor that it lacks.
bool makesPartial(const graph::ShardingRule &rule, const Choice &choice,
                  unsigned result);

/// The node's candidate if sub-axis i does what `choices[i]` says; none if the
/// node cannot be laid out so. Split dims are padded to `extents`, in which
/// connected dims agree, or, if it is null, to the least extent that the node
/// needs.
std::optional<Candidate> makeCandidate(const SideTable &table,
                                       const Extents *extents, const Node &node,
                                       llvm::ArrayRef<Choice> choices);

/// Enumerates the *candidates* of each node: layouts of its operands and
/// results in which each sub-axis either splits one factor that it reaches, or
/// passes as a partial, or is replicated. A candidate that does not use a
/// sub-axis that reaches the node violates the sub-axis's level; only
/// candidates with the least violations are kept. Emits an error if a node has
/// no candidate.
mlir::FailureOr<Candidates> enumerateCandidates(const SideTable &table,
                                                const Reach &reach,
                                                const Extents &extents,
                                                CompositeCosts &composites);

} // namespace polyrank::sharding
