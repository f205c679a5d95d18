// What executes a rank's own commands: the interface behind which the CPU
// stands, and later CUDA.

#pragma once

#include "runtime/plan/plan_generated.h"
#include "support/Result.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// A buffer of the plan in this process: in microbatch m at base + m * stride,
/// with slots at base + (m mod slots) * stride.
struct Address {
  std::byte *base = nullptr;
  uint64_t stride = 0;
  uint32_t slots = 0;

  std::byte *at(uint32_t microbatch) const {
    return base + (slots ? microbatch % slots : microbatch) * stride;
  }
};

/// The two regions of this rank's arena. The plan is verified: every buffer
/// that it names lies inside.
struct ArenaView {
  std::span<std::byte> sharedRegion, privateRegion;
  /// This rank's linear index over each of the program's groups.
  std::vector<uint64_t> indices;

  /// Where the buffer starts in its region in the first microbatch.
  uint64_t offsetOf(const plan::BufferRef &buffer) const {
    return buffer.offset() +
           (buffer.axes() ? indices[buffer.axes() - 1] * buffer.step() : 0);
  }
  Address resolve(const plan::BufferRef &buffer) const {
    std::span<std::byte> region =
        buffer.region() == plan::Region::Shared ? sharedRegion : privateRegion;
    return {region.data() + offsetOf(buffer), buffer.stride(), buffer.slots()};
  }
};

/// A command made ready: addresses resolved, library objects built.
class Operation {
public:
  virtual ~Operation() = default;
  virtual Result<void> run(uint32_t microbatch) = 0;
};

/// What a device reaches with all its threads.
struct DeviceRates {
  double flopsPerSecond = 0; // in a large product of f32
  double bytesPerSecond = 0; // adding one large array to another
};

/// Prepares commands once, at load. Devices outlive their operations.
class Device {
public:
  using Prepared = Result<std::unique_ptr<Operation>>;
  virtual ~Device() = default;

  virtual Prepared prepare(const plan::Launch &launch,
                           const ArenaView &arena) = 0;
  /// Fails where the library now asks for more scratch than the plan gives.
  virtual Prepared prepare(const plan::Gemm &gemm, const ArenaView &arena) = 0;
  /// `index` is this rank's index over the copy's axes.
  virtual Prepared prepare(const plan::Copy &copy, int64_t index,
                           const ArenaView &arena) = 0;

  /// Runs body(begin, end) over [0, range) on the device's host threads, in
  /// pieces whose bounds are multiples of `grain`.
  virtual void
  parallelFor(int64_t range, int64_t grain,
              const std::function<void(int64_t, int64_t)> &body) = 0;

  /// Measures for some tenths of a second.
  virtual Result<DeviceRates> measureRates() = 0;
};

} // namespace polyrank::runtime
