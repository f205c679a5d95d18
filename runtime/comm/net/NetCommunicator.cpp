// Attaches a rank, and what it knows of the ranks of other machines: whether
// they are there, and what they wait for.

#include "runtime/comm/net/NetCommunicator.h"

#include "runtime/comm/net/Ucx.h"
#include "support/Cores.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// How often a rank has to look again, and still wait, before a circle of waits
/// is believed: a message about an earlier wait may be on its way so long.
constexpr uint64_t beatsOfCircle = 5;

} // namespace

NetCommunicator::NetCommunicator(JobMember &job, WirePage mapped,
                                 const RankMachines &given)
    : ShmCommunicator(job, netProperties, given.first(), given.count()),
      page(std::move(mapped)), machines(given), farRanks(job.worldSize()),
      streams(job.worldSize()), bodies(job.worldSize()),
      pieces(job.worldSize()), buffers(job.worldSize()),
      hasSaidBye(job.worldSize()) {
  for (int rank = 0; rank < job.worldSize(); ++rank)
    if (!isNear(rank))
      far.push_back(rank);
}

Result<std::unique_ptr<Communicator>>
NetCommunicator::attach(std::span<const int> descriptors, JobMember &job,
                        const PlanHash &program) {
  std::string name = "rank " + std::to_string(job.rank());
  size_t near = descriptors.size() < 2 ? 0 : (descriptors.size() - 2) / 4;
  if (near < 1 || descriptors.size() != size_t(filesOf(int(near))))
    return Error{name + ": " + std::to_string(descriptors.size()) +
                     " files are not those of a communicator",
                 Error::Fault::Rank};
  POLYRANK_ASSIGN(page, WirePage::map(descriptors[1 + 2 * near]));
  RankMachines machines = page.machines();
  if (machines.worldSize() != job.worldSize() ||
      machines.count() != int(near) || job.rank() < machines.first() ||
      job.rank() >= machines.first() + machines.count())
    return Error{name + " of " + std::to_string(job.worldSize()) +
                     " is none of this machine's " + std::to_string(near),
                 Error::Fault::Rank};
  if (!page.header().isConnected)
    return Error{name + " was started before its launcher knew the others",
                 Error::Fault::Rank};
  std::unique_ptr<NetCommunicator> communicator(
      new NetCommunicator(job, std::move(page), machines));
  if (auto joined = communicator->join(descriptors, program); !joined)
    return joined.error();
  return std::unique_ptr<Communicator>(std::move(communicator));
}

Result<void> NetCommunicator::join(std::span<const int> files,
                                   const PlanHash &program) {
  size_t near = machines.count(), memoryFiles = 1 + 2 * near;
  if (auto opened = mapMemory(files.first(memoryFiles), program); !opened)
    return opened;
  // A rank that spins must not take the core that its wire thread needs.
  if (usableCores() < 2 * countNear)
    spinNanoseconds = 0;
  files = files.subspan(memoryFiles);
  for (int each : files)
    fcntl(each, F_SETFD, FD_CLOEXEC);
  Descriptor pageFile(files[0]), listener;
  for (size_t rank = 0; rank < near; ++rank) {
    bells.emplace_back(files[1 + rank]);
    Descriptor each(files[1 + near + rank]);
    if (int(rank) == self - firstNear)
      listener = std::move(each);
  }
  CommunicatorPeers peers = page.peers();
  TcpOptions options;
  options.self = self;
  options.listeners = peers.listeners;
  options.firstNear = firstNear;
  options.countNear = countNear;
  options.pairing.incarnation = peers.incarnation;
  options.pairing.plan = program;
  options.process = static_cast<uint32_t>(getpid());
  options.checksData = page.header().checksData;
  sigset_t all, before; // signals are for the rank's own thread
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> made = makeWire(options, JobKey(peers.key), std::move(listener));
  if (made)
    wireThread = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made ? awaitPeers() : made;
}

Result<void> NetCommunicator::makeWire(const TcpOptions &options,
                                       const JobKey &key, Descriptor listener) {
  int bell = bells[self - firstNear].get();
  if (page.header().wire == WireKind::Ucx) {
    POLYRANK_ASSIGN(
        made, createUcxWire(options, key, std::move(listener), bell, *this));
    wire = std::move(made);
    return {};
  }
  POLYRANK_ASSIGN(
      made, TcpWire::create(options, key, std::move(listener), bell, *this));
  wire = std::move(made);
  return {};
}

/// Waits until all ranks of other machines are connected.
Result<void> NetCommunicator::awaitPeers() {
  constexpr std::chrono::milliseconds moment(100);
  std::unique_lock lock(mutex);
  while (connectedPeers < int(far.size()) && !failure) {
    changed.wait_for(lock, moment);
    if (auto alive = job().health(); !alive)
      return alive;
    if (auto alive = job().checkLauncher(); !alive)
      return alive;
  }
  return failure ? Result<void>(*failure) : Result<void>();
}

NetCommunicator::~NetCommunicator() {
  stopCommThreads(); // they ring wire threads
  ends = true;
  if (wireThread.joinable()) {
    ringWire(self);
    wireThread.join();
  }
  wire.reset(); // until then it may receive into what this has
}

JobMember::Presence NetCommunicator::presenceOf(int rank) const {
  return isNear(rank) ? ShmCommunicator::presenceOf(rank)
                      : farRanks[rank].presence.load();
}

std::string NetCommunicator::describeAbsence(int rank) const {
  if (isNear(rank))
    return ShmCommunicator::describeAbsence(rank);
  const FarRank &peer = farRanks[rank];
  std::string text = "rank " + std::to_string(rank) + " (process " +
                     std::to_string(peer.process) + " on machine " +
                     std::to_string(machines.machineOf(rank)) + ") ";
  if (peer.presence.load() == JobMember::Presence::Left)
    return text + "left the job early";
  return text +
         (peer.why.empty() ? "died" : "is not reached any more: " + peer.why);
}

uint64_t NetCommunicator::waitingOf(int rank) const {
  if (isNear(rank))
    return ShmCommunicator::waitingOf(rank);
  std::optional<FarWait> wait = page.waitOf(rank);
  return wait ? wait->word : 0;
}

std::vector<int> NetCommunicator::findBlockers(int rank, uint64_t word) {
  if (isNear(rank))
    return ShmCommunicator::findBlockers(rank, word);
  std::optional<FarWait> wait = page.waitOf(rank);
  if (!wait || wait->word == 0 || wait->word != word)
    return {};
  return {wait->ranks, wait->ranks + std::min<size_t>(wait->blockers,
                                                      FarWait::mostBlockers)};
}

std::string NetCommunicator::describeWait(int rank) const {
  if (isNear(rank))
    return ShmCommunicator::describeWait(rank);
  std::optional<FarWait> wait = page.waitOf(rank);
  if (!wait || wait->word == 0)
    return "rank " + std::to_string(rank) + " does not wait";
  return {wait->text, strnlen(wait->text, FarWait::mostText)};
}

/// A rank of another machine may have gone on since it told what it waits for.
/// So each must have told again, often enough that it did so after this rank
/// had suspected the circle.
bool NetCommunicator::isCertain(
    const std::vector<std::pair<int, uint64_t>> &circle) {
  std::vector<uint64_t> beatsNow;
  for (auto &[rank, word] : circle)
    if (!isNear(rank)) {
      std::optional<FarWait> wait = page.waitOf(rank);
      beatsNow.push_back(wait && wait->word == word ? wait->beat : 0);
    }
  if (circle != suspected) {
    suspected = circle;
    suspectedBeats = beatsNow;
  }
  for (size_t n = 0; n < beatsNow.size(); ++n)
    if (beatsNow[n] < suspectedBeats[n] + beatsOfCircle)
      return false;
  return true;
}

} // namespace polyrank::runtime::net
