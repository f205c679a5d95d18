// polyrank-bench-allreduce measures how long a communicator takes to sum
// float32 values over ranks, each a process with one thread; or for one half of
// that, a reduce_scatter or an all_gather.
//
//   polyrank-bench-allreduce --mib 64 --ranks 2 --repeats 20 --kind all_reduce
//
// prints {"kind": "all_reduce", "ranks": 2, "machines": 1, "bytes": 67108864,
// "repeats": 20, "least_ms": .., "median_ms": ..}. The time of a repetition is
// that of its slowest rank, measured from a barrier. Every value is checked.
// With --machines the ranks have a shared memory for each of so many machines,
// and speak TCP over the loopback between them, or UCX with --wire ucx (UCX_TLS
// says over what); --bytes is for short ones.

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/device/DeviceAccess.h"
#include "runtime/device/IdleDevice.h"
#include "runtime/job/local/LocalJob.h"
#include "support/Cores.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace polyrank;
using namespace polyrank::runtime;

struct Options {
  int ranks = 2, machines = 1, repeats = 20;
  int64_t bytes = 64 << 20;
  CollectiveKind kind = CollectiveKind::AllReduce;
  WireKind wire = WireKind::Tcp;
};

bool parseKind(const char *name, CollectiveKind &kind) {
  for (CollectiveKind known :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
        CollectiveKind::AllGather})
    if (!std::strcmp(name, nameOf(known))) {
      kind = known;
      return true;
    }
  return false;
}

bool parse(int argc, char **argv, Options &options) {
  if (argc % 2 == 0)
    return false;
  for (int i = 1; i < argc; i += 2) {
    int value = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--kind")) {
      if (!parseKind(argv[i + 1], options.kind))
        return false;
    } else if (!std::strcmp(argv[i], "--wire")) {
      options.wire =
          std::strcmp(argv[i + 1], "ucx") ? WireKind::Tcp : WireKind::Ucx;
      if (std::strcmp(argv[i + 1], nameOf(options.wire)))
        return false;
    } else if (!std::strcmp(argv[i], "--mib") && value >= 1 && value <= 4096)
      options.bytes = int64_t(value) << 20;
    else if (!std::strcmp(argv[i], "--bytes") && value >= 8)
      options.bytes = value;
    else if (!std::strcmp(argv[i], "--machines") && value >= 1 && value <= 64)
      options.machines = value;
    else if (!std::strcmp(argv[i], "--ranks") && value >= 2 && value <= 64)
      options.ranks = value;
    else if (!std::strcmp(argv[i], "--repeats") && value >= 1 &&
             value <= 100000)
      options.repeats = value;
    else
      return false;
  }
  return true;
}

/// The initial values of a rank: exact in float32, and different on each rank.
float valueOf(int rank, size_t element) {
  return float((rank + 1) * int(1 + element % 7));
}

/// The final value on `rank`; `block` is the number of the element's block,
/// where each rank has one block.
float expectedOf(const Options &options, int rank, int block, size_t element) {
  float sum =
      float(options.ranks * (options.ranks + 1) / 2) * float(1 + element % 7);
  switch (options.kind) {
  case CollectiveKind::AllReduce:
    return sum;
  case CollectiveKind::ReduceScatter:
    return block == rank ? sum : valueOf(rank, element);
  default:
    return valueOf(block, element);
  }
}

/// Runs the collective in place, as in a plan; times[n] is set to the seconds
/// of repetition n.
Result<void> runRank(Communicator &communicator, DeviceSpan memory,
                     const Options &options, double *times) {
  std::vector<int32_t> everyone(options.ranks);
  std::iota(everyone.begin(), everyone.end(), 0);
  POLYRANK_ASSIGN(group, communicator.createGroup(everyone));
  size_t block = size_t(options.bytes) / sizeof(float) / options.ranks;
  size_t elements = block * options.ranks;
  uint64_t own = communicator.rank() * block * sizeof(float);
  auto *values =
      reinterpret_cast<float *>(DeviceAccess::pointerTo(memory.address));
  Transfer transfer;
  bool isWhole = options.kind == CollectiveKind::AllReduce;
  bool isGather = options.kind == CollectiveKind::AllGather;
  transfer.inner = int64_t(isWhole ? elements : block);
  (isGather ? transfer.input : transfer.output) = isWhole ? 0 : own;
  Collective collective{.kind = options.kind,
                        .reduction =
                            isGather ? Reduction::None : Reduction::Sum,
                        .group = group};
  collective.transfers = {&transfer, 1};

  for (int n = -1; n < options.repeats; ++n) { // the first is a warm-up
    for (size_t e = 0; e < elements; ++e)
      values[e] = valueOf(communicator.rank(), e);
    if (auto ready = communicator.exchange(group, 0); !ready)
      return ready.error();
    auto start = std::chrono::steady_clock::now();
    if (auto done = communicator.run(collective); !done)
      return done.error();
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    if (n >= 0)
      times[n] = taken.count();
    for (size_t e = 0; e < elements; ++e)
      if (float expected =
              expectedOf(options, communicator.rank(), int(e / block), e);
          values[e] != expected)
        return Error{"element " + std::to_string(e) + " of repetition " +
                         std::to_string(n) + " is " +
                         std::to_string(values[e]) + ", not " +
                         std::to_string(expected),
                     Error::Fault::Rank};
  }
  // No rank leaves before all are done.
  auto all = communicator.exchange(group, 0);
  return all ? Result<void>() : all.error();
}

/// The launcher's end of one machine.
struct Machine {
  RankMachines ranks;
  std::unique_ptr<JobControl> job;
  std::unique_ptr<CommunicatorHost> host;
};

Result<std::vector<Machine>> createMachines(const Options &options) {
  std::vector<Machine> machines(options.machines);
  RankMachines all;
  all.address = "127.0.0.1";
  for (int m = 0; m < options.machines; ++m)
    all.ranks.push_back((options.ranks + options.machines - 1 - m) /
                        options.machines);
  CommunicatorPeers peers;
  peers.incarnation = uint64_t(getpid());
  for (int m = 0; m < options.machines; ++m) {
    all.machine = m;
    local::JobOptions job;
    job.ranks = options.ranks;
    job.here = RankRange{all.first(), all.count()};
    // All machines are this one, and each rank has a wire thread.
    if (options.machines > 1)
      job.alone = 2 * options.ranks <= usableCores();
    POLYRANK_ASSIGN(created, local::createJob(job));
    CommunicatorNeeds needs;
    needs.channelBytes.resize(options.ranks);
    needs.machines = all;
    needs.wire = options.wire;
    POLYRANK_ASSIGN(host, hostCommunicators(needs));
    for (uint16_t port : host->ports())
      peers.listeners.push_back({all.address, port});
    machines[m] = {all, std::move(created), std::move(host)};
  }
  if (options.machines > 1)
    for (const Machine &machine : machines)
      if (Result<void> told = machine.host->connect(peers); !told)
        return told.error();
  return std::move(machines);
}

Result<void> joinAndRun(const std::vector<Machine> &machines, int rank,
                        const Options &options, double *times) {
  const Machine &here = machines[machines[0].ranks.machineOf(rank)];
  POLYRANK_ASSIGN(member, local::joinJob(here.job->descriptors(), rank));
  IdleDevice device;
  POLYRANK_ASSIGN(allocated, device.allocate(uint64_t(options.bytes),
                                             arenaAlignment, Sharing::Peers));
  POLYRANK_ASSIGN(communicator,
                  attachCommunicator(here.host->descriptors(), *member, {}));
  auto arena = std::make_shared<const DeviceMemory>(std::move(allocated));
  if (Result<void> done = communicator->registerMemory(arena); !done)
    return done;
  return runRank(*communicator, arena->span(), options, times);
}

int rankMain(const std::vector<Machine> &machines, int rank,
             const Options &options, double *times) {
  Result<void> done = joinAndRun(machines, rank, options, times);
  if (!done)
    std::fprintf(stderr, "rank %d: %s\n", rank, done.error().message.c_str());
  return done ? 0 : 2;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: %s [--mib 1..4096 | --bytes N] [--ranks 2..64] [--machines N] "
        "[--wire tcp|ucx] [--repeats N] [--kind "
        "all_reduce|reduce_scatter|all_gather]\n",
        argv[0]);
    return 1;
  }
  size_t count = size_t(options.ranks) * options.repeats;
  void *shared = mmap(nullptr, count * sizeof(double), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  auto *times = static_cast<double *>(shared); // [rank][repetition]
  auto machines = createMachines(options);
  if (!machines) {
    std::fprintf(stderr, "%s\n", machines.error().message.c_str());
    return 2;
  }
  std::vector<pid_t> processes(options.ranks);
  for (int r = 0; r < options.ranks; ++r) {
    processes[r] = fork();
    if (processes[r] == 0)
      _exit(rankMain(*machines, r, options, times + r * options.repeats));
    if (processes[r] < 0) {
      std::perror("fork");
      machines->front().job->abort("not all ranks could be started");
      return 2;
    }
  }
  bool failed = false;
  for (pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed |= status != 0;
  }
  if (failed)
    return 2;

  std::vector<double> slowest(options.repeats);
  for (int n = 0; n < options.repeats; ++n)
    for (int r = 0; r < options.ranks; ++r)
      slowest[n] = std::max(slowest[n], times[r * options.repeats + n]);
  std::sort(slowest.begin(), slowest.end());
  std::printf(
      "{\"kind\": \"%s\", \"ranks\": %d, \"machines\": %d, \"bytes\": %lld, "
      "\"repeats\": %d, \"least_ms\": %.6g, \"median_ms\": %.6g}\n",
      nameOf(options.kind), options.ranks, options.machines,
      static_cast<long long>(options.bytes), options.repeats, 1e3 * slowest[0],
      1e3 * slowest[options.repeats / 2]);
  return 0;
}
