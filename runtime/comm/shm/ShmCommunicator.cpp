// A rank's groups, and the start and end of operations. Work.cpp does the work
// of operations; in Wait.cpp ranks wait for each other.

#include "runtime/comm/shm/ShmCommunicator.h"

#include "runtime/device/DeviceAccess.h"
#include "runtime/plan/CollectiveTime.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

constexpr uint64_t spinNanosecondsWhenAlone = 50'000;

uint64_t hashOf(std::span<const int64_t> values) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a, by 64-bit words
  for (int64_t value : values)
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3;
  return hash;
}

OperationRecord recordOf(const Collective &collective, int members) {
  OperationRecord record{};
  record.id = collective.id;
  record.kind = static_cast<int32_t>(collective.kind);
  record.reduction = static_cast<int8_t>(collective.reduction);
  record.dtype = static_cast<int8_t>(collective.dtype);
  record.transfers = collective.transfers.size();
  uint64_t digest = 0;
  for (const Transfer &t : collective.transfers) {
    record.elements += elementsOf(collective.kind, t, members).input;
    int64_t values[] = {int64_t(digest), t.outer,      t.x,   t.middle, t.y,
                        t.inner,         t.splitFirst, t.low, t.high};
    digest = hashOf(values);
  }
  for (int32_t source : collective.permutation) {
    int64_t values[] = {int64_t(digest), source};
    digest = hashOf(values);
  }
  record.shapes = digest;
  return record;
}

std::string hexOf(const ProgramDigest &digest) {
  std::string text;
  for (uint8_t byte : digest)
    for (int shift : {4, 0})
      text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

std::string describeRecord(const OperationRecord &record) {
  if (record.kind == exchangeKind)
    return "an exchange";
  return "value " + std::to_string(record.id) + " (" +
         describe(static_cast<CollectiveKind>(record.kind),
                  static_cast<Reduction>(record.reduction),
                  static_cast<ElementType>(record.dtype), record.elements) +
         " in " + std::to_string(record.transfers) +
         " transfers, digest of extents " +
         std::to_string(record.shapes % 0x10000) + ")";
}

} // namespace

Result<std::unique_ptr<Communicator>> attach(std::span<const int> descriptors,
                                             JobMember &job,
                                             const ProgramDigest &program) {
  return ShmCommunicator::attach(descriptors, job, program);
}

Result<std::unique_ptr<Communicator>>
ShmCommunicator::attach(std::span<const int> descriptors, JobMember &job,
                        const ProgramDigest &program) {
  std::unique_ptr<ShmCommunicator> communicator(
      new ShmCommunicator(job, shmProperties, 0, job.worldSize()));
  if (auto opened = communicator->mapMemory(descriptors, program); !opened)
    return opened.error();
  return std::unique_ptr<Communicator>(std::move(communicator));
}

Result<void> ShmCommunicator::mapMemory(std::span<const int> descriptors,
                                        const ProgramDigest &program) {
  std::string name = "rank " + std::to_string(self);
  if (descriptors.size() != size_t(filesOf(countNear)))
    return Error{name + ": " + std::to_string(descriptors.size()) +
                     " files are not the memory of " +
                     std::to_string(countNear) + " ranks",
                 Error::Fault::Rank};
  POLYRANK_ASSIGN(page, ControlPage::map(descriptors[0]));
  const ControlHeader &header = page.header();
  if (header.version != controlVersion ||
      header.worldSize != uint32_t(worldSize()))
    return Error{name + ": the control page is not of this job",
                 Error::Fault::Rank};
  if (header.program != program)
    return Error{name + " read another plan (hash " + hexOf(program) +
                     ") than its launcher (" + hexOf(header.program) +
                     "): the file was written over while the run started; "
                     "start it again",
                 Error::Fault::Rank};

  for (int each : descriptors)
    fcntl(each, F_SETFD, FD_CLOEXEC);
  file = Descriptor(descriptors[0]);
  receiving.resize(worldSize());
  for (int near = 0; near < countNear; ++near) {
    Descriptor end(descriptors[1 + 2 * near]);
    if (firstNear + near == self)
      sending = std::move(end);
    receiving[firstNear + near] = Descriptor(descriptors[2 + 2 * near]);
  }
  control = std::move(page);
  // A rank that crashes dumps what it has sent, and not what others have.
  for (int rank = 0; rank < worldSize(); ++rank)
    if (auto slots = control.slots(rank); rank != self && !slots.empty())
      madvise(slots.data(), slots.size(), MADV_DONTDUMP);
  arenas.resize(worldSize());
  spinNanoseconds = job().hasOwnCores() ? spinNanosecondsWhenAlone : 0;
  wakes = job().onAbort([this] { control.wakeSleepers(); });
  return {};
}

ShmCommunicator::~ShmCommunicator() {
  stopCommThreads(); // a rank that leaves must not work on a piece
  for (size_t rank = 0; rank < arenas.size(); ++rank)
    if (int(rank) != self && arenas[rank].base)
      munmap(arenas[rank].base, arenas[rank].size);
}

Error ShmCommunicator::failed(const std::string &message) {
  return job().fail(message); // of the first rank that failed
}

Result<void>
ShmCommunicator::registerMemory(std::shared_ptr<const DeviceMemory> memory) {
  Arena &arena = arenas[self];
  int descriptor = DeviceAccess::descriptorOf(*memory);
  auto bytes = DeviceAccess::bytesOf(memory->span());
  if (arena.isReached)
    return Error{"rank " + std::to_string(self) + " registers memory twice",
                 Error::Fault::Rank};
  if (bytes.size() > 0 && descriptor < 0)
    return Error{"rank " + std::to_string(self) +
                     " registers memory that its device has not allocated for "
                     "peers",
                 Error::Fault::Rank};
  if (auto left = leaveMemory(sending.get(), descriptor); !left)
    return left;
  arena = {bytes.data(), bytes.size(), true};
  registered = std::move(memory);
  return {};
}

Result<void> ShmCommunicator::reach(LocalGroup &group) {
  if (group.isReached)
    return {};
  for (int member : group.near)
    if (auto reached = awaitArena(group.ranks[member]); !reached)
      return reached;
  group.isReached = true;
  return {};
}

Result<void> ShmCommunicator::awaitArena(int rank) {
  constexpr std::chrono::milliseconds longest(100);
  if (rank == self && !arenas[rank].isReached)
    return Error{"rank " + std::to_string(self) + " has registered no memory",
                 Error::Fault::Rank};
  // A token that no wait for an operation or a channel has.
  constexpr uint64_t token = ~uint64_t(0);
  bool waits = false;
  Result<void> result = mapArena(rank, std::chrono::milliseconds(0));
  while (result && !arenas[rank].isReached) {
    if (!std::exchange(waits, true))
      job().beginWait(token, RankWait::What::Starts, {&rank, 1});
    result = job().health();
    if (result)
      result = job().checkLauncher();
    if (!result)
      break;
    JobMember::Presence presence = job().presenceOf(rank);
    bool isThere = presence == JobMember::Presence::Expected ||
                   presence == JobMember::Presence::Present;
    result = mapArena(rank, isThere ? longest : std::chrono::milliseconds(0));
    if (result && !isThere && !arenas[rank].isReached)
      result = failed(job().describeAbsence(rank) + "; rank " +
                      std::to_string(self) + " waits for its memory");
  }
  if (waits)
    job().endWait(self, token);
  return result;
}

Result<void> ShmCommunicator::mapArena(int rank,
                                       std::chrono::milliseconds longest) {
  Arena &arena = arenas[rank];
  if (arena.isReached)
    return {};
  POLYRANK_ASSIGN(left, takeMemory(receiving[rank].get(), longest));
  if (!left)
    return {};
  struct stat status{};
  if (left->descriptor.get() >= 0 &&
      fstat(left->descriptor.get(), &status) != 0)
    return Error{"arena of rank " + std::to_string(rank) + ": " +
                     std::strerror(errno),
                 Error::Fault::Rank};
  if (status.st_size > 0) {
    void *memory = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE,
                        MAP_SHARED, left->descriptor.get(), 0);
    if (memory == MAP_FAILED)
      return Error{"mapping the arena of rank " + std::to_string(rank) +
                       " of " + std::to_string(status.st_size) +
                       " bytes: " + std::strerror(errno),
                   Error::Fault::Rank};
    // Otherwise every rank that crashes would dump the memory of all others.
    madvise(memory, status.st_size, MADV_DONTDUMP);
    arena.base = static_cast<std::byte *>(memory);
    arena.size = status.st_size;
  }
  arena.isReached = true;
  return {};
}

Result<Group> ShmCommunicator::createGroup(std::span<const int32_t> ranks,
                                           const LinkTime &link) {
  // Otherwise Linux wakes sleepers up to 50 us late, to coalesce timers.
  if (!link.isFree())
    prctl(PR_SET_TIMERSLACK, 1);
  LocalGroup group;
  group.ranks.assign(ranks.begin(), ranks.end());
  group.link = link;
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].ranks == group.ranks) {
      if (!link.isFree())
        groups[g].link = link;
      return Group{static_cast<uint32_t>(g)};
    }
  std::vector<bool> seen(worldSize());
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (ranks[m] < 0 || ranks[m] >= worldSize() || seen[ranks[m]])
      return failed("rank " + std::to_string(self) + ": a group names rank " +
                    std::to_string(ranks[m]) + " twice, or beyond the " +
                    std::to_string(worldSize()) + " ranks of the job");
    seen[ranks[m]] = true;
    if (ranks[m] == self)
      group.me = static_cast<int>(m);
    if (isNear(ranks[m]))
      group.near.push_back(static_cast<int>(m));
  }
  if (!seen[self])
    return failed("rank " + std::to_string(self) +
                  " makes a group to which it does not belong");
  POLYRANK_ASSIGN(entry, findEntry(ranks));
  group.entry = entry;
  groups.push_back(std::move(group));
  if (groups.back().crosses())
    hasCreated(groups.back());
  return Group{static_cast<uint32_t>(groups.size() - 1)};
}

/// Returns the entry of this list of ranks in the control page: an existing
/// one, or a free one that the first member claims and fills.
Result<uint32_t> ShmCommunicator::findEntry(std::span<const int32_t> ranks) {
  std::vector<int64_t> wide(ranks.begin(), ranks.end());
  uint64_t key = hashOf(wide);
  for (uint32_t g = 0; g < control.header().groupCapacity; ++g) {
    GroupHeader &entry = control.group(g);
    EntryState state = EntryState::Free;
    if (entry.state.compare_exchange_strong(state, EntryState::Claimed)) {
      entry.key = key;
      entry.size = static_cast<uint32_t>(ranks.size());
      for (size_t m = 0; m < ranks.size(); ++m)
        control.member(g, m).rank = ranks[m];
      entry.state.store(EntryState::Ready, std::memory_order_release);
      return g;
    }
    if (auto ready = awaitReady(entry.state); !ready)
      return ready.error();
    bool same = entry.key == key && entry.size == ranks.size();
    for (size_t m = 0; same && m < ranks.size(); ++m)
      same = control.member(g, m).rank == ranks[m];
    if (same)
      return g;
  }
  return failed("rank " + std::to_string(self) + ": more than " +
                std::to_string(control.header().groupCapacity) +
                " distinct groups of ranks");
}

Result<void> ShmCommunicator::awaitReady(std::atomic<EntryState> &state) {
  while (state.load(std::memory_order_acquire) != EntryState::Ready) {
    if (auto alive = job().health(); !alive)
      return alive;
    if (auto alive = job().checkLauncher(); !alive)
      return alive;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return {};
}

Result<void> ShmCommunicator::check(const Collective &collective) {
  if (collective.group.index >= groups.size())
    return Error{"no such group", Error::Fault::Rank};
  LocalGroup &group = groups[collective.group.index];
  if (auto reached = reach(group); !reached)
    return reached;
  return checkCollective(collective, static_cast<int>(group.ranks.size()),
                         group.me, arenas[self].size);
}

Result<Request> ShmCommunicator::start(const Collective &collective,
                                       Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  int64_t begin = monotonicNanoseconds();
  Result<OpenCollective *> started = startRounds(collective);
  if (!started)
    return started.error();
  CollectiveStatistics &counter =
      counters[static_cast<size_t>(collective.kind)];
  int64_t end = monotonicNanoseconds(), taken = end - begin;
  counter.nanoseconds += taken;
  if (!collective.isAwaited)
    counter.startingNanoseconds += taken - waited;
  counter.waitingNanoseconds += waited;
  return Request{(*started)->request, Event::over(end)};
}

Result<Arrival> ShmCommunicator::wait(const Request &request) {
  int64_t begin = monotonicNanoseconds();
  waited = 0;
  if (auto alive = job().health(); !alive)
    return alive.error();
  auto found = std::find_if(open.begin(), open.end(), [&](const auto &each) {
    return each->request == request.number;
  });
  if (found == open.end())
    return failed("rank " + std::to_string(self) +
                  " waits for a collective that it has not started, or has "
                  "waited for");
  CollectiveStatistics &counter = counters[static_cast<size_t>((*found)->kind)];
  POLYRANK_ASSIGN(completion, finishRounds(**found));
  int64_t end = monotonicNanoseconds();
  counter.nanoseconds += end - begin;
  return Arrival(Event::over(end), completion);
}

/// Returns the bytes that a member sends for these transfers.
static uint64_t sentBytesOf(const Collective &collective, int members) {
  uint64_t bytes = 0;
  for (const Transfer &transfer : collective.transfers) {
    TransferElements elements = elementsOf(collective.kind, transfer, members);
    bytes += sentBytes(collective.kind, members,
                       elements.input * bytesOf(collective.dtype),
                       elements.output * bytesOf(collective.dtype));
  }
  return bytes;
}

Result<ShmCommunicator::OpenCollective *>
ShmCommunicator::startRounds(const Collective &collective) {
  waited = 0;
  failpoint("collective.before_start");
  if (auto alive = job().health(); !alive)
    return alive.error();
  LocalGroup &group = groups[collective.group.index];
  if (!collective.transfers.empty())
    if (auto reached = reach(group); !reached)
      return reached.error();
  OperationRecord record = recordOf(collective, group.members());
  if (spare.empty())
    spare.push_back(std::make_unique<OpenCollective>());
  OpenCollective &started = *open.emplace_back(std::move(spare.back()));
  spare.pop_back();
  started.request = ++requests;
  started.kind = collective.kind;
  started.bytes = bytesMoved(collective, group.members(), group.me);
  size_t all = collective.transfers.size();
  started.rounds.resize(std::max<size_t>(
      {started.rounds.size(), 1, (all + roundTransfers - 1) / roundTransfers}));
  started.numRounds = 0;
  size_t first = 0;
  uint64_t sent = 0;
  int64_t linkTime = 0; // of the rounds so far
  do {
    Operation &round = started.rounds[started.numRounds++];
    round.collective = collective;
    round.collective.transfers = collective.transfers.subspan(
        first, std::min<size_t>(roundTransfers, all - first));
    round.group = &group;
    round.isDone = false;
    round.linkTime = 0;
    if (!group.link.isFree()) {
      sent += sentBytesOf(round.collective, group.members());
      int64_t all =
          collectiveTime(collective.kind, group.members(), sent, group.link);
      round.linkTime = all - std::exchange(linkTime, all);
    }
    if (auto done = startOperation(round, record); !done)
      return done.error();
    first += roundTransfers;
    ++record.round;
  } while (first < all);
  failpoint("collective.after_start");
  return &started;
}

/// Finishes all rounds, and keeps the memory of `collective` for another one.
Result<Completion> ShmCommunicator::finishRounds(OpenCollective &collective) {
  for (size_t r = 0; r < collective.numRounds; ++r)
    if (auto done = finish(collective.rounds[r]); !done)
      return done.error();
  Completion completion =
      collective.rounds[collective.numRounds - 1].completion;
  CollectiveStatistics &counter =
      counters[static_cast<size_t>(collective.kind)];
  ++counter.calls;
  counter.bytes += collective.bytes;
  counter.waitingNanoseconds += waited;
  auto found = std::find_if(open.begin(), open.end(), [&](const auto &each) {
    return each.get() == &collective;
  });
  spare.push_back(std::move(*found));
  open.erase(found);
  return completion;
}

Result<std::vector<uint64_t>> ShmCommunicator::exchange(Group handle,
                                                        uint64_t value) {
  failpoint("exchange.before");
  if (auto alive = job().health(); !alive)
    return alive.error();
  if (handle.index >= groups.size())
    return failed("rank " + std::to_string(self) + ": no such group");
  OperationRecord record{};
  record.kind = exchangeKind;
  Operation operation;
  operation.group = &groups[handle.index];
  operation.isExchange = true;
  operation.exchanged = value;
  if (auto started = startOperation(operation, record); !started)
    return started.error();
  if (auto done = finish(operation); !done)
    return done.error();
  // A member writes its next value of this slot only after this rank has
  // started what comes ringSlots operations later.
  std::vector<uint64_t> values;
  for (int m = 0; m < operation.group->members(); ++m)
    values.push_back(memberOf(operation, m).exchanged);
  return std::move(values);
}

/// Takes the operation's slot and publishes this member's record of it. The
/// last member that does so completes the start.
Result<void> ShmCommunicator::startOperation(Operation &operation,
                                             const OperationRecord &record) {
  LocalGroup &group = *operation.group;
  operation.number = group.operations;
  if (auto room = makeRoom(operation); !room)
    return room;
  ++group.operations;
  MemberOperation &mine = memberOf(operation, group.me);
  mine.record = record;
  mine.record.carried = 0;
  mine.exchanged = operation.exchanged;
  job().setOperation(record.id);
  uint32_t pieces = 0; // that can be claimed
  if (!operation.isExchange) {
    publishOffsets(operation, mine);
    operation.isSmall = isSmall(operation);
    operation.carriedAt.clear();
    if (operation.isSmall && group.crosses())
      mine.record.carried = static_cast<uint16_t>(packInputs(operation));
    if (!operation.isSmall) {
      fillRow(operation, group.me, operation.own);
      pieces = operation.own.pieces;
    }
  }
  if (pieces > 0)
    share(operation);
  OperationSlot &slot = slotOf(operation);
  claimsOf(operation, group.me)
      .store(uint64_t(operation.turn() + 1) << 32 | pieces,
             std::memory_order_release);
  mine.arrival.store(operation.turn() + 1, std::memory_order_release);
  if (group.crosses()) {
    hasStarted(operation, mine.record);
    if (!operation.isExchange && !operation.isSmall)
      ++pieces; // what this rank moves between machines
  }
  uint64_t before = slot.progress.fetch_add(OperationSlot::oneStart + pieces,
                                            std::memory_order_acq_rel);
  if (before / OperationSlot::oneStart + 1 == group.ranks.size())
    return completeStart(operation, self);
  return {};
}

/// Finishes the previous operation of the slot, if it is still in flight, and
/// the oldest operations until there is room to publish the transfers' offsets.
Result<void> ShmCommunicator::makeRoom(Operation &operation) {
  uint32_t entry = operation.group->entry;
  auto isDone = [&](const Published &each) {
    uint32_t turn = control.group(each.entry)
                        .operations[each.slot]
                        .turn.load(std::memory_order_acquire);
    return int32_t(turn - each.turn) >= 2;
  };
  if (operation.number >= ringSlots &&
      slotOf(operation).turn.load(std::memory_order_acquire) !=
          operation.turn())
    if (Operation *before =
            findOpen(entry, operation.slot(), operation.turn() - 2))
      if (auto done = finish(*before); !done)
        return done;
  uint64_t count = operation.collective.transfers.size();
  while (publishedCount + count > publishedTransfers) {
    const Published &oldest = published.front();
    if (!isDone(oldest))
      if (Operation *before = findOpen(oldest.entry, oldest.slot, oldest.turn))
        if (auto done = finish(*before); !done)
          return done;
    publishedCount -= oldest.count;
    published.pop_front();
  }
  return {};
}

ShmCommunicator::Operation *
ShmCommunicator::findOpen(uint32_t entry, uint32_t slot, uint32_t turn) {
  for (auto &collective : open)
    for (size_t r = 0; r < collective->numRounds; ++r) {
      Operation &round = collective->rounds[r];
      if (round.group->entry == entry && round.slot() == slot &&
          round.turn() == turn)
        return &round;
    }
  return nullptr;
}

void ShmCommunicator::publishOffsets(Operation &operation,
                                     MemberOperation &mine) {
  auto transfers = operation.collective.transfers;
  mine.firstOffsets = static_cast<uint32_t>(publishedEnd % publishedTransfers);
  if (transfers.empty())
    return;
  auto offsets = control.offsets(self);
  for (const Transfer &transfer : transfers)
    offsets[publishedEnd++ % publishedTransfers] = {transfer.input,
                                                    transfer.output};
  publishedCount += transfers.size();
  published.push_back({operation.group->entry, operation.slot(),
                       operation.turn(), transfers.size()});
}

/// Called by the member that starts the operation last, or by who brings its
/// message: compares the records of all members, and lets them begin the work.
Result<void> ShmCommunicator::completeStart(const Task &operation,
                                            int starter) {
  const LocalGroup &group = *operation.group;
  const OperationRecord &first = memberOf(operation, 0).record;
  for (int m = 1; m < group.members(); ++m) {
    const OperationRecord &other = memberOf(operation, m).record;
    if (!(other == first))
      return failed("ranks disagree on what to do next: rank " +
                    std::to_string(group.ranks[0]) + " is at " +
                    describeRecord(first) + ", rank " +
                    std::to_string(group.ranks[m]) + " at " +
                    describeRecord(other));
  }
  OperationSlot &slot = slotOf(operation);
  uint64_t pieces =
      slot.progress.load(std::memory_order_relaxed) % OperationSlot::oneStart;
  slot.progress.store(pieces, std::memory_order_relaxed);
  slot.lastStarter = starter;
  slot.startedAt = monotonicNanoseconds();
  slot.linkEndsAt = 0;
  if (int64_t time = wholeNanoseconds(operation.linkTime)) {
    // Operations of a group are started in order, so `linkFreeAt` already
    // includes the previous one.
    int64_t &free = control.group(group.entry).linkFreeAt;
    free = std::max(free, slot.startedAt) + time;
    slot.linkEndsAt = free;
  }
  slot.lastFinisher = starter;
  slot.finishedAt = slot.startedAt;
  if (operation.isSmall)
    workAlone(operation);
  slot.turn.store(operation.turn() + (pieces == 0 ? 2 : 1));
  if (slot.sleepers.load() > 0)
    wake(operation);
  if (pieces > 0)
    ring(group);
  if (!group.crosses())
    return {};
  if (pieces > 0)
    hasBegun(group);
  else
    hasEnded(group);
  return {};
}

void ShmCommunicator::setParallelFor(ParallelFor parallelFor) {
  threads = std::move(parallelFor);
}

} // namespace polyrank::runtime::shm
