// Forks ranks over shared memory.

#include "test/runtime/comm/RankProcesses.h"

#include "runtime/device/DeviceAccess.h"
#include "test/runtime/queued/QueuedCommunicator.h"

#include <chrono>
#include <csignal>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Each rank is a process.
DeviceSpan registered;

struct RankProcess {
  pid_t pid = -1;
  int pipe = -1;
};

/// Waits for the end of all that another communicator does in the background.
class Awaiting : public Communicator {
public:
  explicit Awaiting(Communicator &inner)
      : Communicator(inner.job(), inner.properties()), inner(inner) {}

  Result<void>
  registerMemory(std::shared_ptr<const DeviceMemory> memory) override {
    return inner.registerMemory(std::move(memory));
  }
  Result<Group> createGroup(std::span<const int32_t> ranks,
                            const LinkTime &link) override {
    return inner.createGroup(ranks, link);
  }
  Result<void> check(const Collective &collective) override {
    return inner.check(collective);
  }
  Result<Request> start(const Collective &collective, Events after) override {
    POLYRANK_ASSIGN(request, inner.start(collective, after));
    if (Result<void> started = request.started.wait(); !started)
      return started.error();
    return request;
  }
  Result<Arrival> wait(const Request &request) override {
    return over(inner.wait(request));
  }
  Result<ChannelEnd> openChannel(const Channel &channel) override {
    return inner.openChannel(channel);
  }
  Result<Arrival> send(ChannelEnd end, DeviceSpan value, Events after,
                       const SendTimes &times) override {
    return over(inner.send(end, value, after, times));
  }
  Result<Arrival> receive(ChannelEnd end, DeviceSpan into, Events after,
                          const ReceiveTime &freed) override {
    return over(inner.receive(end, into, after, freed));
  }
  Result<std::vector<uint64_t>> exchange(Group group, uint64_t value) override {
    return inner.exchange(group, value);
  }
  void setParallelFor(ParallelFor parallelFor) override {
    inner.setParallelFor(std::move(parallelFor));
  }
  void setCommThreads(int count) override { inner.setCommThreads(count); }
  CommunicatorStatistics statistics() const override {
    return inner.statistics();
  }

private:
  static Result<Arrival> over(Result<Arrival> arrival) {
    if (arrival)
      if (Result<void> done = arrival->event().wait(); !done)
        return done.error();
    return arrival;
  }

  Communicator &inner;
};

/// Puts something around the communicator of a rank.
using Wrap =
    std::unique_ptr<Communicator> (*)(std::unique_ptr<Communicator> inner);

[[noreturn]] void runRank(const ShmJob &job, int rank, Wrap wrap,
                          const RankMain &main, int pipe) {
  std::string text;
  {
    auto joined = ShmRank::join(job, rank);
    if (joined && wrap)
      joined->communicator = wrap(std::move(joined->communicator));
    text = joined ? main(*joined->communicator)
                  : "join: " + joined.error().message;
  }
  size_t written = 0;
  while (written < text.size()) {
    ssize_t n = write(pipe, text.data() + written, text.size() - written);
    if (n <= 0)
      break;
    written += n;
  }
  _exit(0);
}

} // namespace

Result<ShmJob> ShmJob::create(std::vector<uint64_t> sizes, int threadsPerRank,
                              const shm::ProgramDigest &program,
                              uint64_t slotBytes) {
  POLYRANK_ASSIGN(control, local::createJob({static_cast<int>(sizes.size()),
                                             threadsPerRank}));
  POLYRANK_ASSIGN(memory,
                  shm::Memory::create(
                      {std::vector(sizes.size(), slotBytes), 1024, program}));
  ShmJob job;
  job.sizes = std::move(sizes);
  job.control = std::move(control);
  job.memory = std::make_unique<shm::Memory>(std::move(memory));
  job.wakes = job.control->onAbort(
      [memory = job.memory.get()] { memory->wakeSleepers(); });
  return std::move(job);
}

Result<ShmRank> ShmRank::join(const ShmJob &job, int rank,
                              const shm::ProgramDigest &program) {
  ShmRank joined;
  POLYRANK_ASSIGN(member, local::joinJob(job.control->descriptors(), rank));
  joined.job = std::move(member);
  POLYRANK_ASSIGN(communicator,
                  shm::attach(job.memory->descriptors(), *joined.job, program));
  joined.communicator = std::move(communicator);
  joined.device = std::make_unique<IdleDevice>();
  if (auto done =
          registerMemory(*joined.device, *joined.communicator, job.sizes[rank]);
      !done)
    return done.error();
  return std::move(joined);
}

Result<void> registerMemory(Device &device, Communicator &communicator,
                            uint64_t bytes) {
  POLYRANK_ASSIGN(memory,
                  device.allocate(bytes, arenaAlignment, Sharing::Peers));
  registered = memory.span();
  return communicator.registerMemory(
      std::make_shared<const DeviceMemory>(std::move(memory)));
}

std::span<std::byte> registeredMemory() {
  return DeviceAccess::bytesOf(registered);
}

/// Forks the ranks; see CommunicatorUnderTest::run.
static std::vector<RankOutcome> run(const JobShape &shape, Wrap wrap,
                                    const RankMain &main,
                                    const std::string &abortMessage) {
  auto job =
      ShmJob::create(std::vector<uint64_t>(shape.ranks, shape.sharedSize),
                     shape.threadsPerRank, {}, shape.slotBytes);
  std::vector<RankOutcome> outcomes(shape.ranks);
  if (!job) {
    for (RankOutcome &outcome : outcomes)
      outcome.text = job.error().message;
    return outcomes;
  }
  auto start = Clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::vector<RankProcess> processes(shape.ranks);
  for (int r = 0; r < shape.ranks; ++r) {
    int ends[2];
    if (pipe(ends) != 0)
      std::abort();
    processes[r].pipe = ends[0];
    processes[r].pid = fork();
    if (processes[r].pid == 0)
      runRank(*job, r, wrap, main, ends[1]);
    close(ends[1]);
  }
  if (!abortMessage.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job->control->abort(abortMessage);
  }
  // A rank has ended when its pipe is closed. No rank is reaped before the last
  // one has ended: ranks must detect the death of one that is still a zombie.
  for (int open = shape.ranks; open > 0;) {
    std::vector<pollfd> watched;
    for (RankProcess &process : processes)
      watched.push_back({process.pipe, POLLIN, 0});
    if (poll(watched.data(), watched.size(), 100) < 0)
      break;
    for (int r = 0; r < shape.ranks; ++r) {
      if (processes[r].pipe < 0)
        continue;
      if (watched[r].revents) {
        char text[4096];
        ssize_t n = read(processes[r].pipe, text, sizeof(text));
        if (n > 0) {
          outcomes[r].text.append(text, n);
          continue;
        }
      } else if (seconds() < 20) {
        continue;
      } else {
        outcomes[r].text = "hangs";
        kill(processes[r].pid, SIGKILL);
      }
      outcomes[r].seconds = seconds();
      close(processes[r].pipe);
      processes[r].pipe = -1;
      --open;
    }
  }
  for (int r = 0; r < shape.ranks; ++r) {
    int status = 0;
    waitpid(processes[r].pid, &status, 0);
    outcomes[r].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  return outcomes;
}

std::vector<RankOutcome> runOverShm(const JobShape &shape, const RankMain &main,
                                    const std::string &abortMessage) {
  return run(shape, nullptr, main, abortMessage);
}

std::vector<RankOutcome> runLate(const JobShape &shape, const RankMain &main,
                                 const std::string &abortMessage) {
  return run(
      shape,
      [](std::unique_ptr<Communicator> inner) {
        auto queues = makeQueues(static_cast<uint64_t>(inner->rank()) + 1,
                                 std::chrono::microseconds(20));
        return std::unique_ptr<Communicator>(
            std::make_unique<QueuedCommunicator>(std::move(inner), queues,
                                                 communicatorQueue));
      },
      [&](Communicator &communicator) {
        Awaiting awaiting(communicator);
        return main(awaiting);
      },
      abortMessage);
}

std::vector<RankOutcome> runWithCommThreads(const JobShape &shape,
                                            const RankMain &main,
                                            const std::string &abortMessage) {
  return runOverShm(
      shape,
      [&](Communicator &communicator) {
        communicator.setCommThreads(2);
        return main(communicator);
      },
      abortMessage);
}

} // namespace polyrank::runtime::test
