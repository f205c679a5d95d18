// Loops over the elements of sequences, as one op.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// What an iteration gives, or all of them: elements, or stacks of these along
/// a new dim 0, and what is carried on, or was carried last.
struct Scanned {
  std::vector<Imported> stacks, carried;
};

/// What an iteration computes from its elements and the carried values; nullopt
/// where it is none that a scan can have.
using IterationFn = llvm::function_ref<std::optional<Scanned>(
    llvm::ArrayRef<Imported> elements, llvm::ArrayRef<Imported> carried)>;

/// A `graph.scan` over dim 0 of `of`, which all have as many elements, at least
/// one. What `iterate` builds may use values from outside, but draw no random
/// numbers and hold no loop; the types of carried values do not change.
/// `isReversed`: from the last element to the first. nullopt, and nothing is
/// left, where `iterate` says so.
std::optional<Scanned> scan(Emitter &emit, llvm::ArrayRef<Imported> of,
                            llvm::ArrayRef<Imported> carried, bool isReversed,
                            IterationFn iterate);

} // namespace polyrank::frontends
