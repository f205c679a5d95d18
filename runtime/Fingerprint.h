// Tells the weights that a plan was compiled with from others at their place.

#pragma once

#include "runtime/File.h"

namespace polyrank::runtime {

/// A digest of [offset, offset + length), never 0. Up to 64 KiB all bytes count;
/// of more, 16 pieces of 4 KiB, evenly spread, the first and the last bytes
/// among them: a model is trained or exported anew as a whole, and a file of
/// any size is looked at in no time. It is no defence against a forger.
Result<uint64_t> fingerprintOf(const InputFile &file, uint64_t offset,
                               uint64_t length);

} // namespace polyrank::runtime
