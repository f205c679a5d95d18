// What executes a rank's own commands and holds its arena: the interface behind
// which the CPU stands, and later CUDA.

#pragma once

#include "runtime/device/DeviceMemory.h"
#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/plan_generated.h"
#include "support/Result.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// A buffer of the plan on this device: in microbatch m at base + m * stride,
/// with slots at base + (m mod slots) * stride, and in iteration i of a loop i
/// * each further (negative: back).
struct Address {
  DeviceAddress base;
  uint64_t stride = 0;
  uint32_t slots = 0;
  int64_t each = 0;

  DeviceAddress at(Turn turn) const {
    return base + (slots ? turn.microbatch % slots : turn.microbatch) * stride +
           turn.iteration * uint64_t(each);
  }
};

/// The two regions of this rank's arena. The plan is verified: every buffer
/// that it names lies inside.
struct ArenaView {
  DeviceSpan sharedRegion, privateRegion;
  /// This rank's linear index over each of the program's groups.
  std::vector<uint64_t> indices;

  /// Where the buffer starts in its region in the first microbatch.
  uint64_t offsetOf(const plan::BufferRef &buffer) const {
    return buffer.offset() +
           (buffer.axes() ? indices[buffer.axes() - 1] * buffer.step() : 0);
  }
  Address resolve(const plan::BufferRef &buffer) const {
    const DeviceSpan &region =
        buffer.region() == plan::Region::Shared ? sharedRegion : privateRegion;
    return {region.address + offsetOf(buffer), buffer.stride(), buffer.slots(),
            buffer.each()};
  }
  /// In the first microbatch.
  DeviceSpan spanOf(const plan::BufferRef &buffer) const {
    return {resolve(buffer).base, buffer.size()};
  }
};

/// A command made ready: addresses resolved, library objects built. One that a
/// device has made is run by that device alone (Device::enqueue).
class Operation {
public:
  virtual ~Operation() = default;
  virtual Result<void> run(Turn turn) = 0;
};

/// The queues of a device (CUDA: streams). What is put on one runs in that
/// order, beside what is on the other. Queues of communicators belong to the
/// transport.
enum class Queue : uint8_t { Compute, Copies };
inline constexpr int numQueues = 2;

/// A place on a queue (CUDA: an event): over when all is done that was put on
/// the queue up to there. Number 0 is over from the start.
struct QueueTicket {
  Queue queue = Queue::Compute;
  uint64_t number = 0;
};

/// What a device reaches with all its threads.
struct DeviceRates {
  double flopsPerSecond = 0; // in a large product of f32
  double bytesPerSecond = 0; // adding one large array to another
};

/// Holds a rank's memory, prepares commands once, at load, and runs them.
/// Devices outlive their operations and memory. All calls are made by one
/// thread.
///
/// What is enqueued or uploaded may be done later, and in the background; an
/// error of it is that of a later call. The order is that of its queue and of
/// the tickets that it waits for. A device for which all is done on return
/// gives tickets of number 0.
class Device {
public:
  using Prepared = Result<std::unique_ptr<Operation>>;
  virtual ~Device() = default;

  /// Memory of zeros for a region of an arena, which is there: using it later
  /// cannot fail for want of it. `alignment` of its begin: a power of two.
  /// Freed when no queue uses it any more.
  virtual Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment) = 0;
  /// The same of memory that a transport has brought; what it holds stays.
  virtual Result<void> adopt(DeviceSpan memory) = 0;

  /// Writes all bytes of a host's memory that becomes the device's; what it
  /// holds before is unspecified.
  using Fill = std::function<Result<void>(std::span<std::byte> memory)>;
  /// Fills device memory on the queue of copies, once `after` is over. `fill`
  /// is called before this returns, straight on the device's memory where the
  /// host sees that; its error is returned.
  virtual Result<QueueTicket> upload(DeviceSpan to, const Fill &fill,
                                     QueueTicket after) = 0;
  /// What is there once `after` is over, for which it waits.
  virtual Result<Downloaded> download(DeviceSpan from, QueueTicket after) = 0;

  /// Puts an operation that this device has prepared on the queue of computing,
  /// to run once `after` is over.
  virtual Result<QueueTicket> enqueue(Operation &operation, Turn turn,
                                      QueueTicket after) = 0;
  /// Returns when that is over, with the first error of what was done so far.
  virtual Result<void> synchronize(QueueTicket ticket) = 0;

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
