// Runs a function as the ranks of a job, one process each, over the
// communicator under test.

#pragma once

#include "runtime/comm/WireKind.h"
#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/device/IdleDevice.h"
#include "runtime/job/local/LocalJob.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace polyrank::runtime::test {

/// A local job that communicates over shared memory, as its launcher has it.
struct ShmJob {
  std::unique_ptr<JobControl> control;
  std::unique_ptr<shm::Memory> memory;
  Job::AbortHook wakes; // of `control`, for `memory`
  std::vector<uint64_t> sizes;

  /// `sizes` are those of the memory that the ranks register.
  static Result<ShmJob> create(std::vector<uint64_t> sizes,
                               int threadsPerRank = 1,
                               const shm::ProgramDigest &program = {},
                               uint64_t slotBytes = 0);
};

/// A rank of such a job, whose device has memory of the job's size.
struct ShmRank {
  std::unique_ptr<JobMember> job;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator; // destroyed before these

  static Result<ShmRank> join(const ShmJob &job, int rank,
                              const shm::ProgramDigest &program = {});
};

/// Lets the device allocate memory that the communicator registers, and which
/// `memoryOf` finds. Called once in each rank's process.
Result<void> registerMemory(Device &device, Communicator &communicator,
                            uint64_t bytes);
/// The memory that this rank's communicator has registered.
std::span<std::byte> registeredMemory();

struct JobShape {
  int ranks = 2;
  uint64_t sharedSize = 1 << 20;
  uint64_t slotBytes = 1 << 20; // for what each rank sends
  int threadsPerRank = 1;
};

struct RankOutcome {
  std::string text;   // the result of the rank's function
  int signal = 0;     // the signal that ended the process
  double seconds = 0; // from the start of the job to the end of this rank
};

/// Returns an empty text on success.
using RankMain = std::function<std::string(Communicator &communicator)>;

/// A communicator for the conformance suite.
struct CommunicatorUnderTest {
  std::string name;
  /// Forks the ranks and returns when all have ended; a rank that runs for more
  /// than 20 s is killed, and its text says so. If `abortMessage` is given, the
  /// launcher aborts the job with it after 50 ms.
  std::vector<RankOutcome> (*run)(const JobShape &shape, const RankMain &main,
                                  const std::string &abortMessage);
  /// True if ranks have communication threads, which work before the wait.
  bool hasCommThreads = false;
  /// True if ranks are on several machines, to which messages take a while.
  bool crossesMachines = false;
  WireKind wire = WireKind::Tcp; // if they are

  /// The reason why it cannot be tested here; empty if it can.
  std::string whyNot() const;

  friend void PrintTo(const CommunicatorUnderTest &communicator,
                      std::ostream *out) {
    *out << communicator.name;
  }
};

/// Runs the ranks on so many machines, or on one for each rank if there are
/// fewer: processes that have a job and shared memory of their own for each
/// machine, and speak TCP over the loopback, or UCX. The launcher aborts
/// machine 0.
std::vector<RankOutcome> runOverMachines(int machines, WireKind wire,
                                         const JobShape &shape,
                                         const RankMain &main,
                                         const std::string &abortMessage);
template <int machines, WireKind wire = WireKind::Tcp>
std::vector<RankOutcome> runOverMachines(const JobShape &shape,
                                         const RankMain &main,
                                         const std::string &abortMessage) {
  return runOverMachines(machines, wire, shape, main, abortMessage);
}
std::vector<RankOutcome> runOverShm(const JobShape &shape, const RankMain &main,
                                    const std::string &abortMessage);
/// Runs each rank on a communicator that works late, in the background
/// (test/runtime/queued). Each call of the rank waits for the events that it
/// gets.
std::vector<RankOutcome> runLate(const JobShape &shape, const RankMain &main,
                                 const std::string &abortMessage);
/// Runs each rank with two communication threads, which oversubscribes the
/// cores.
std::vector<RankOutcome> runWithCommThreads(const JobShape &shape,
                                            const RankMain &main,
                                            const std::string &abortMessage);

} // namespace polyrank::runtime::test
