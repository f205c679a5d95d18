// The result of pack_padded_sequence: a batch of sequences of different
// lengths.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// PyTorch concatenates the elements of all sequences, so that the shape
/// depends on the lengths, which are data. Here the sequences stay padded, and
/// every reader ignores what lies beyond their ends. The object stands for both
/// of PyTorch's tensors, the elements and the batch size of each step; only the
/// operators on packed sequences accept it.
struct PackedSequence : Object {
  Imported steps;   // [T, B, ..]; values beyond the ends are arbitrary
  Imported lengths; // [B]; int32 or int64
  ElementType type = ElementType::F32; // of the steps
};

/// Returns the packed sequence that the two arguments, its elements and its
/// batch sizes, belong to; null, with the call failed, if they do not match.
std::shared_ptr<const PackedSequence>
packedOf(Call &c, llvm::StringRef elements, llvm::StringRef sizes);

} // namespace polyrank::frontends::aten
