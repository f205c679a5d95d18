// Forks ranks, over shared memory and over several machines.

#include "test/runtime/comm/RankProcesses.h"

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/device/DeviceAccess.h"
#include "test/runtime/comm/net/TestUcx.h"
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

/// A rank in its process.
struct JoinedRank {
  std::unique_ptr<JobMember> job;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator; // destroyed before these
};
/// Lets a rank join, in its process.
using Join = std::function<Result<JoinedRank>(int rank)>;

[[noreturn]] void runRank(const Join &join, int rank, Wrap wrap,
                          const RankMain &main, int pipe) {
  std::string text;
  {
    auto joined = join(rank);
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

/// What the launchers of several machines have, for one plan.
struct MachineJobs {
  std::vector<RankMachines> machines;
  std::vector<std::unique_ptr<JobControl>> controls;
  std::vector<std::unique_ptr<CommunicatorHost>> hosts;
  std::vector<Job::AbortHook> wakes;

  static Result<MachineJobs> create(int count, WireKind wire,
                                    const JobShape &shape);
  Result<JoinedRank> join(int rank, uint64_t bytes) const;
};

Result<MachineJobs> MachineJobs::create(int count, WireKind wire,
                                        const JobShape &shape) {
  MachineJobs jobs;
  count = std::min(count, shape.ranks);
  RankMachines all;
  all.address = "127.0.0.1";
  for (int machine = 0; machine < count; ++machine)
    all.ranks.push_back((shape.ranks + count - 1 - machine) / count);
  CommunicatorPeers peers;
  peers.incarnation = 0x1234567890abcdef;
  peers.key[3] = 7;
  for (int machine = 0; machine < count; ++machine) {
    all.machine = machine;
    jobs.machines.push_back(all);
    local::JobOptions options;
    options.ranks = shape.ranks;
    options.here = RankRange{all.first(), all.count()};
    options.threadsPerRank = shape.threadsPerRank;
    POLYRANK_ASSIGN(control, local::createJob(options));
    CommunicatorNeeds needs;
    needs.channelBytes.assign(shape.ranks, shape.slotBytes);
    needs.machines = all;
    needs.wire = wire;
    POLYRANK_ASSIGN(host, hostCommunicators(needs));
    jobs.wakes.push_back(
        control->onAbort([each = host.get()] { each->wakeSleepers(); }));
    for (uint16_t port : host->ports())
      peers.listeners.push_back({all.address, port});
    jobs.controls.push_back(std::move(control));
    jobs.hosts.push_back(std::move(host));
  }
  if (count > 1)
    for (const auto &host : jobs.hosts)
      if (Result<void> connected = host->connect(peers); !connected)
        return connected.error();
  return std::move(jobs);
}

Result<JoinedRank> MachineJobs::join(int rank, uint64_t bytes) const {
  size_t machine = machines.front().machineOf(rank);
  JoinedRank joined;
  POLYRANK_ASSIGN(member,
                  local::joinJob(controls[machine]->descriptors(), rank));
  joined.job = std::move(member);
  POLYRANK_ASSIGN(
      communicator,
      attachCommunicator(hosts[machine]->descriptors(), *joined.job, {}));
  joined.communicator = std::move(communicator);
  joined.device = std::make_unique<IdleDevice>();
  if (auto done = registerMemory(*joined.device, *joined.communicator, bytes);
      !done)
    return done.error();
  return std::move(joined);
}

} // namespace

Result<ShmJob> ShmJob::create(std::vector<uint64_t> sizes, int threadsPerRank,
                              const shm::ProgramDigest &program,
                              uint64_t slotBytes) {
  local::JobOptions options;
  options.ranks = static_cast<int>(sizes.size());
  options.threadsPerRank = threadsPerRank;
  POLYRANK_ASSIGN(control, local::createJob(options));
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

/// Forks the ranks; see CommunicatorUnderTest::run. `abort` is what the
/// launcher does with its message.
static std::vector<RankOutcome> runRanks(const JobShape &shape,
                                         const Join &join, Wrap wrap,
                                         const RankMain &main,
                                         const std::function<void()> &abort) {
  std::vector<RankOutcome> outcomes(shape.ranks);
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
      runRank(join, r, wrap, main, ends[1]);
    close(ends[1]);
  }
  if (abort) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    abort();
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

static std::vector<RankOutcome> failedToCreate(const JobShape &shape,
                                               const Error &error) {
  RankOutcome outcome;
  outcome.text = error.message;
  return std::vector<RankOutcome>(shape.ranks, outcome);
}

static std::vector<RankOutcome> run(const JobShape &shape, Wrap wrap,
                                    const RankMain &main,
                                    const std::string &abortMessage) {
  auto job =
      ShmJob::create(std::vector<uint64_t>(shape.ranks, shape.sharedSize),
                     shape.threadsPerRank, {}, shape.slotBytes);
  if (!job)
    return failedToCreate(shape, job.error());
  Join join = [&](int rank) -> Result<JoinedRank> {
    POLYRANK_ASSIGN(joined, ShmRank::join(*job, rank));
    return JoinedRank{std::move(joined.job), std::move(joined.device),
                      std::move(joined.communicator)};
  };
  std::function<void()> abort;
  if (!abortMessage.empty())
    abort = [&] { job->control->abort(abortMessage); };
  return runRanks(shape, join, wrap, main, abort);
}

std::vector<RankOutcome> runOverMachines(int machines, WireKind wire,
                                         const JobShape &shape,
                                         const RankMain &main,
                                         const std::string &abortMessage) {
  auto jobs = MachineJobs::create(machines, wire, shape);
  if (!jobs)
    return failedToCreate(shape, jobs.error());
  std::function<void()> abort;
  if (!abortMessage.empty())
    abort = [&] { jobs->controls.front()->abort(abortMessage); };
  return runRanks(
      shape, [&](int rank) { return jobs->join(rank, shape.sharedSize); },
      nullptr, main, abort);
}

std::string CommunicatorUnderTest::whyNot() const {
  return wire == WireKind::Ucx ? net::test::whyNoUcx() : "";
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
