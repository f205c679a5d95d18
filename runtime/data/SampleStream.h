// Batches that come one after another from elsewhere, instead of from files.

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace polyrank::runtime {

/// The batches of a training in their order, each of which a rank reads once.
class SampleStream {
public:
  virtual ~SampleStream() = default;

  /// Waits until a batch is there, or none will come: then false. Batches
  /// before it may be gone from now on. Returns the error of the stream after
  /// the last good batch. Calls `beat` at least every 100 ms, whose error ends
  /// the wait.
  virtual Result<bool> await(uint64_t number,
                             const std::function<Result<void>()> &beat) = 0;
  /// Copies rows [begin, end) of a batch that is there, of input number
  /// `input`: dense, in the input's dtype.
  virtual void read(uint64_t number, size_t input, int64_t begin, int64_t end,
                    std::byte *into) const = 0;
  /// Ends the waits of all threads of this process, with an error.
  virtual void cancel() = 0;
};

} // namespace polyrank::runtime
