// A rank's groups, starts, channels and waits, as far as they concern other
// machines; and the loop of the wire thread.

#include "runtime/comm/net/NetCommunicator.h"

#include "runtime/plan/Channels.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace polyrank::runtime::net {
namespace {

/// How often a rank has to look again, and still wait, before a circle of waits
/// is believed: a message about an earlier wait may be on its way so long.
constexpr uint64_t beatsOfCircle = 5;
/// How long a rank that leaves waits for those that do not answer.
constexpr int64_t longestGoodbye = 2'000'000'000;

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
  POLYRANK_ASSIGN(
      created, TcpWire::create(options, JobKey(peers.key), std::move(listener),
                               bells[self - firstNear].get(), *this));
  wire = std::move(created);
  sigset_t all, before; // signals are for the rank's own thread
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  wireThread = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return awaitPeers();
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
}

void NetCommunicator::post(std::function<void()> what) {
  {
    std::lock_guard lock(mutex);
    inbox.push_back(std::move(what));
  }
  ringWire(self);
}

void NetCommunicator::ringWire(int rank) const {
  NearRank &near = page.near(rank);
  near.bell.fetch_add(1);
  if (near.sleeps.load() == 0)
    return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written =
      write(bells[rank - firstNear].get(), &one, sizeof(one));
}

void NetCommunicator::hasTurned(const LocalGroup &group) const {
  for (int member : group.near)
    ringWire(group.ranks[member]);
  for (int rank = firstNear; rank < firstNear + countNear; ++rank)
    if (page.near(rank).hasPending.load() != 0)
      ringWire(rank);
}

void NetCommunicator::hasCreated(const LocalGroup &group) {
  post([this, &group] {
    Frame frame;
    frame.kind = FrameKind::Group;
    frame.group = control.group(group.entry).key;
    sendToMachines(&group, frame, group.ranks.data(),
                   group.ranks.size() * sizeof(int32_t));
  });
}

void NetCommunicator::hasStarted(const Operation &operation,
                                 const shm::OperationRecord &record) {
  uint64_t key = control.group(operation.group->entry).key;
  std::shared_ptr<WireTask> task;
  if (!operation.isExchange) {
    task = std::make_shared<WireTask>(operation);
    task->key = key;
#ifdef __SSE__
    task->floatMode = _mm_getcsr();
#endif
  }
  StartMessage message{};
  message.record = record;
  message.exchanged = operation.exchanged;
  message.linkTime = operation.linkTime;
  message.member = static_cast<uint32_t>(operation.group->me);
  Frame frame;
  frame.kind = FrameKind::Start;
  frame.group = key;
  frame.operation = operation.number;
  post([this, task, message, frame, group = operation.group] {
    if (task) {
      plan(*task);
      tasks.push_back(task);
    }
    sendToMachines(group, frame, &message, sizeof(message));
  });
}

void NetCommunicator::hasOpened(const OpenChannel &channel) {
  if (isNear(channel.peer) || !channel.sends)
    return;
  Frame frame;
  frame.kind = FrameKind::Channel;
  frame.group = channel.id;
  shm::ChannelHeader *header = channel.header;
  ChannelMessage message{header->bytes, header->offset, header->slots,
                         header->firstRecord};
  post([this, frame, message, header, peer = channel.peer] {
    outgoing[{peer, frame.group}] = header;
    sendBytes(peer, frame, &message, sizeof(message));
  });
}

void NetCommunicator::hasMoved(const OpenChannel &channel, uint64_t bytes,
                               bool isGiven) {
  if (isNear(channel.peer))
    return;
  const shm::ChannelHeader &header = *channel.header;
  uint64_t number = channel.count - 1;
  const shm::TransferRecord record = control.records(
      channel.sender)[header.firstRecord + number % channel.slots];
  Frame frame;
  frame.kind = channel.sends ? FrameKind::Sent : FrameKind::Received;
  frame.group = channel.id;
  frame.operation = number;
  frame.stage = isGiven;
  int peer = channel.peer;
  if (!channel.sends) {
    post([this, peer, frame, record] {
      sendBytes(peer, frame, &record, sizeof(record));
    });
    return;
  }
  const std::byte *slot = control.slots(self).data() + header.offset +
                          number % channel.slots * slotBytesOf(channel.bytes);
  auto count = static_cast<uint32_t>((bytes + valuePiece - 1) / valuePiece);
  post([this, peer, frame, record, slot, bytes, count] {
    Stream stream;
    stream.pieces = count + 1;
    stream.send = [=, this](uint32_t piece) {
      if (piece == count)
        return sendBytes(peer, frame, &record, sizeof(record));
      Frame part = frame;
      part.kind = FrameKind::Value;
      part.piece = piece;
      uint64_t from = piece * valuePiece;
      wire->send(peer, part,
                 {{slot + from, std::min(valuePiece, bytes - from)}, {}, {}});
    };
    streams[peer].push_back(std::move(stream));
  });
}

void NetCommunicator::stillWaits(uint64_t word) {
  if (word == 0 && !std::exchange(hasTold, false))
    return;
  FarWait wait;
  wait.word = word;
  if (word != 0) {
    hasTold = true;
    wait.beat = ++beats;
    for (int rank : findBlockers(self, word))
      if (wait.blockers < FarWait::mostBlockers)
        wait.ranks[wait.blockers++] = rank;
    std::strncpy(wait.text, describeWait(self).c_str(), sizeof(wait.text) - 1);
  }
  Frame frame;
  frame.kind = FrameKind::Wait;
  post([this, frame, wait] {
    sendToMachines(nullptr, frame, &wait, sizeof(wait));
  });
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

/// The rank of a machine that gets this rank's messages to it: a member of the
/// group, which cannot leave before the group's operations are over, or else
/// one that has not left.
int NetCommunicator::partnerOn(int machine, const LocalGroup *group) const {
  std::vector<int> ranks;
  for (int rank : far)
    if (machines.machineOf(rank) == machine &&
        (group
             ? std::count(group->ranks.begin(), group->ranks.end(), rank) > 0
             : farRanks[rank].presence.load() == JobMember::Presence::Present))
      ranks.push_back(rank);
  return ranks.empty() ? -1 : ranks[(self - firstNear) % ranks.size()];
}

void NetCommunicator::sendBytes(int peer, Frame frame, const void *data,
                                size_t size) {
  auto *first = static_cast<const std::byte *>(data);
  auto bytes = std::make_shared<const Bytes>(first, first + size);
  wire->send(peer, frame, {*bytes, bytes, {}});
}

/// Sends to each other machine that has members of the group, or to all.
void NetCommunicator::sendToMachines(const LocalGroup *group,
                                     const Frame &frame, const void *data,
                                     size_t size) {
  std::vector<bool> isMeant(machines.ranks.size(), group == nullptr);
  if (group)
    for (int32_t rank : group->ranks)
      isMeant[machines.machineOf(rank)] = true;
  isMeant[machines.machine] = false;
  for (size_t machine = 0; machine < isMeant.size(); ++machine)
    if (int partner = partnerOn(int(machine), group);
        isMeant[machine] && partner >= 0)
      sendBytes(partner, frame, data, size);
}

/// Sends pieces where little waits to be sent.
void NetCommunicator::pump() {
  constexpr size_t enough = 4 << 20;
  for (int peer : far) {
    std::deque<Stream> &waiting = streams[peer];
    while (!waiting.empty() && wire->queued(peer) < enough) {
      Stream &stream = waiting.front();
      if (stream.next < stream.pieces)
        stream.send(stream.next++);
      if (stream.next == stream.pieces)
        waiting.pop_front();
    }
  }
}

/// Calls what other threads have posted.
void NetCommunicator::takePosted() {
  std::vector<std::function<void()>> posted;
  {
    std::lock_guard lock(mutex);
    posted.swap(inbox);
  }
  for (const std::function<void()> &each : posted)
    each();
}

Result<void> NetCommunicator::work() {
  takePosted();
  if (auto applied = applyStarts(); !applied)
    return applied;
  advance();
  pump();
  return {};
}

/// Tells all ranks that the job is over, and forgets what was under way.
void NetCommunicator::tellAbort() {
  Result<void> alive = job().health();
  if (alive || std::exchange(hasToldAbort, true))
    return;
  tasks.clear();
  pending.clear();
  for (auto &each : streams)
    each.clear();
  std::string text = alive.error().message.substr(0, mostFrameBytes);
  Frame frame;
  frame.kind = FrameKind::Abort;
  for (int peer : far)
    sendBytes(peer, frame, text.data(), text.size());
}

void NetCommunicator::leave() {
  if (std::exchange(hasSentLeave, true))
    return;
  Frame frame;
  frame.kind = FrameKind::Leave;
  for (int peer : far)
    if (!hasToldAbort)
      streams[peer].push_back({0, 1, [this, peer, frame](uint32_t) {
                                 wire->send(peer, frame, {});
                               }});
}

/// True once all peers have read what this rank sent them, or cannot.
bool NetCommunicator::hasLeft() const {
  return std::all_of(far.begin(), far.end(), [&](int peer) {
    JobMember::Presence presence = farRanks[peer].presence.load();
    bool isGone = presence == JobMember::Presence::Dead ||
                  presence == JobMember::Presence::Left;
    if (hasToldAbort)
      return isGone || wire->queued(peer) == 0;
    return isGone || hasSaidBye[peer];
  });
}

/// The main function of the wire thread.
void NetCommunicator::run() {
  NearRank &near = page.near(self);
  int64_t until = 0; // when this rank has left, whoever answers
  while (true) {
    uint32_t bell = near.bell.load(); // a ring from here on is not lost
    Result<void> done = work();
    if (ends) {
      if (until == 0)
        until = monotonicNanoseconds() + longestGoodbye;
      leave();
      pump();
      if (hasLeft() || monotonicNanoseconds() > until)
        return;
    }
    if (done) {
      near.sleeps.store(1);
      done = wire->progress(near.bell.load() == bell ? (ends ? 10 : 100) : 0);
      near.sleeps.store(0);
    }
    if (!done) {
      job().fail("rank " + std::to_string(self) + ": " + done.error().message);
      std::lock_guard lock(mutex);
      if (!failure)
        failure = job().health().error();
      changed.notify_all();
    }
    tellAbort();
  }
}

} // namespace polyrank::runtime::net
