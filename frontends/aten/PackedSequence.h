// What pack_padded_sequence makes of sequences that end early.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// PyTorch puts the elements of all sequences one after another, as many as
/// there are: a shape that depends on the lengths, and these on data. Here the
/// sequences stay as they were, and what lies behind their ends is left out by
/// whoever reads them. It stands for both of PyTorch's tensors, the elements
/// and the sizes of the batch at each step; no operator but those for packed
/// sequences takes it.
struct PackedSequence : Object {
  Imported steps;   // [T, B, ..], of any value behind the ends
  Imported lengths; // [B]; int32 or int64
  ScalarType type = ScalarType::Float; // of the steps
};

/// What two arguments, its elements and its sizes, are together; null, with the
/// call failed, where they are not of one.
std::shared_ptr<const PackedSequence>
packedOf(Call &c, llvm::StringRef elements, llvm::StringRef sizes);

} // namespace polyrank::frontends::aten
