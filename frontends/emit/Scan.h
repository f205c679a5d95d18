// Loops over the elements of sequences, as a single op.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// The results of an iteration, or of the whole scan: elements, or their stacks
/// along a new dim 0, and the carried values (for the scan: those of the last
/// iteration).
struct Scanned {
  std::vector<Imported> stacks, carried;
};

/// Computes the results of an iteration from its elements and the carried
/// values; nullopt if a scan cannot contain it.
using IterationFn = llvm::function_ref<std::optional<Scanned>(
    llvm::ArrayRef<Imported> elements, llvm::ArrayRef<Imported> carried)>;

/// Builds a `graph.scan` over dim 0 of `of`, which all have the same number of
/// elements, at least one. `iterate` may use values from outside, but must not
/// draw random numbers or contain a loop; the types of carried values must not
/// change. `isReversed`: from the last element to the first. Returns nullopt,
/// and leaves no ops behind, if `iterate` returns nullopt.
std::optional<Scanned> scan(Emitter &emit, llvm::ArrayRef<Imported> of,
                            llvm::ArrayRef<Imported> carried, bool isReversed,
                            IterationFn iterate);

} // namespace polyrank::frontends
