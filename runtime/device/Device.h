// The interface of the device that executes a rank's own commands and holds its
// arena: implemented by the CPU, later by CUDA.

#pragma once

#include "runtime/device/DeviceMemory.h"
#include "runtime/device/Event.h"
#include "runtime/device/Reading.h"
#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/Queues.h"
#include "runtime/plan/plan_generated.h"
#include "support/ElementType.h"
#include "support/Result.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace polyrank::runtime {

/// A buffer of the plan on this device. In microbatch m it is at base + m *
/// stride, or with slots at base + (m mod slots) * stride; in iteration i of a
/// loop it is i * each bytes further (negative: back).
struct Address {
  DeviceAddress base;
  uint64_t stride = 0;
  uint32_t slots = 0;
  int64_t each = 0;

  DeviceAddress at(Invocation invocation) const {
    return base +
           (slots ? invocation.microbatch % slots : invocation.microbatch) *
               stride +
           invocation.iteration * uint64_t(each);
  }
};

/// The two regions of this rank's arena. The plan is verified: all its buffers
/// lie inside.
struct ArenaView {
  DeviceSpan sharedRegion, privateRegion;
  /// This rank's linear index over each of the program's groups.
  std::vector<uint64_t> indices;

  /// Returns the buffer's offset in its region in the first microbatch.
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
  /// The span of the buffer in the first microbatch.
  DeviceSpan spanOf(const plan::BufferRef &buffer) const {
    return {resolve(buffer).base, buffer.size()};
  }
};

/// A prepared command: addresses are resolved, library objects are built. An
/// operation that a device prepared is run only by that device
/// (Device::enqueue).
class Operation {
public:
  virtual ~Operation() = default;
  virtual Result<void> run(Invocation invocation) = 0;
};

/// The queues of a device (CUDA: streams), by their numbers in plans:
/// operations and copies within the device, copies from the host, copies to the
/// host. What is on one queue runs in the order in which it was enqueued,
/// concurrently with the other queues. Queues of communication belong to the
/// communicator.
enum class Queue : uint8_t {
  Compute = computeQueue,
  CopiesIn = copyInQueue,
  CopiesOut = copyOutQueue
};
inline constexpr int numQueues = firstCommunicationQueue;

/// The rates that a device reaches with all its threads.
struct DeviceRates {
  double flopsPerSecond = 0; // in a large f32 GEMM
  double bytesPerSecond = 0; // when it adds one large array to another
  /// In large GEMMs of narrower elements, as far as they were asked for.
  std::map<ElementType, double> narrow = {};

  /// The rate of products of these elements; that of f32 if it is not known.
  double flopsOf(ElementType factors) const {
    auto found = narrow.find(factors);
    return found == narrow.end() ? flopsPerSecond : found->second;
  }
};

/// Work that a device repeats, without a plan, so that its time is measured.
/// @{
/// `batch` products of m x k by k x n. Each repetition finds its right operand
/// elsewhere, as the commands of a plan do, so that large ones are read from
/// memory; the left one stays.
struct ProductTrial {
  ElementType elements = ElementType::F32, result = ElementType::F32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transposeA = false, transposeB = false;

  double flops() const {
    return 2 * double(batch) * double(m) * double(n) * double(k);
  }
};
/// Adds an array of so many floats to another one, as long kernels do.
struct AdditionTrial {
  int64_t elements = 1;

  /// Two arrays are read, and one is written.
  double bytes() const { return 3.0 * sizeof(float) * double(elements); }
};
using TrialWork = std::variant<ProductTrial, AdditionTrial>;

class Trial {
public:
  virtual ~Trial() = default;
  /// Returns once the device has done it.
  virtual Result<void> run() = 0;
};
/// One for each way in which a device can do the work.
using Trials = std::vector<std::unique_ptr<Trial>>;
/// @}

/// Holds a rank's memory, prepares commands once, at load, and runs them.
/// Devices outlive their operations and memory. All calls are made by one
/// thread.
///
/// Nothing waits for what is enqueued: it may run later, in the background, in
/// the order of its queue and after the events that it is given, which may be
/// of this device or of a communicator. An error of such work is returned by a
/// later call, or by the wait for an event. A device that works on return gives
/// events that are over.
class Device {
public:
  using Prepared = Result<std::unique_ptr<Operation>>;
  virtual ~Device() = default;

  /// Allocates zeroed memory for a region of an arena. It is resident, so that
  /// a later use cannot fail for lack of memory. `alignment` of its start is a
  /// power of two. The memory is freed once no queue uses it any more. If it is
  /// shared, a communicator can register it.
  virtual Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment,
                                        Sharing sharing = Sharing::Private) = 0;

  /// Fills host memory whose contents go to the device. It must write all
  /// bytes; their values before are unspecified.
  using Fill = std::function<Result<void>(std::span<std::byte> memory)>;
  /// Fills device memory, once `after` is over. `fill` is called before this
  /// returns, directly on the device's memory if the host can access it; its
  /// error is returned.
  virtual Result<Event> upload(DeviceSpan to, const Fill &fill,
                               Events after) = 0;
  /// Waits until `after` is over, and returns the contents of the memory then.
  virtual Result<Downloaded> download(DeviceSpan from, Events after) = 0;
  /// Reads the contents that the memory has when `after` is over, while the
  /// host and the other queues go on. Whoever enqueues a write to the memory
  /// gives it the event of the reading.
  virtual Result<Reading> read(DeviceSpan from, Events after) = 0;
  /// Copies within the device's memory; both have the same size.
  virtual Result<Event> copy(DeviceSpan from, DeviceSpan to, Events after) = 0;

  /// Enqueues an operation that this device has prepared on the queue Compute;
  /// it runs once `after` is over.
  virtual Result<Event> enqueue(Operation &operation, Invocation invocation,
                                Events after) = 0;
  /// Stores `value` in a word of the host's memory once `after` is over (CUDA:
  /// cuStreamWriteValue64), and everything that was marked before it. The word
  /// outlives the device.
  virtual Result<void> mark(std::atomic<uint64_t> &word, uint64_t value,
                            Events after) = 0;

  virtual Prepared prepare(const plan::Launch &launch,
                           const ArenaView &arena) = 0;
  /// Fails if the device has no such call, or if the library now needs more
  /// scratch than the plan provides.
  virtual Prepared prepare(const plan::Call &call, const ArenaView &arena) = 0;
  /// `index` is this rank's index over the copy's axes.
  virtual Prepared prepare(const plan::Copy &copy, int64_t index,
                           const ArenaView &arena) = 0;

  /// Prepares work to be measured. Trials share memory, so one of them runs at
  /// a time, and none outlives the device.
  virtual Result<Trials> prepareTrials(const TrialWork &work) = 0;
};

/// Measures the rates, those of products of `narrow` elements included, which
/// takes some tenths of a second.
Result<DeviceRates> measureRates(Device &device,
                                 std::span<const ElementType> narrow);

} // namespace polyrank::runtime
