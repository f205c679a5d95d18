// Collectives that read the inputs and write the outputs of peers in place.

#include "runtime/comm/shm/ShmTransport.h"

#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

constexpr int32_t barrierKind = -1;
/// Below this, waking the team costs more than it saves.
constexpr int64_t bytesWorthThreads = 1 << 17;
/// What is copied at once and does not stay in a core's caches.
constexpr int64_t bytesPastCaches = 8 << 20;

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
    int64_t values[] = {int64_t(digest), t.outer,     t.x, t.middle, t.y,
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
  if (record.kind == barrierKind)
    return "a barrier";
  return "value " + std::to_string(record.id) + " (" +
         describe(static_cast<CollectiveKind>(record.kind),
                  static_cast<Reduction>(record.reduction),
                  static_cast<DType>(record.dtype), record.elements) +
         " in " + std::to_string(record.transfers) +
         " transfers, digest of extents " +
         std::to_string(record.shapes % 0x10000) + ")";
}

} // namespace

Result<std::unique_ptr<Transport>> attach(const JobDescriptors &descriptors,
                                          int rank,
                                          const ProgramDigest &program) {
  return ShmTransport::attach(descriptors, rank, program);
}

Result<std::unique_ptr<Transport>>
ShmTransport::attach(const JobDescriptors &descriptors, int rank,
                     const ProgramDigest &program) {
  POLYRANK_ASSIGN(page, ControlPage::map(descriptors.control));
  const ControlHeader &header = page.header();
  int worldSize = static_cast<int>(descriptors.arenas.size());
  if (header.version != controlVersion ||
      header.worldSize != descriptors.arenas.size() || rank < 0 ||
      rank >= worldSize)
    return Error{"rank " + std::to_string(rank) +
                     ": the control page is not of this job",
                 Error::Fault::Rank};
  if (header.program != program)
    return Error{"rank " + std::to_string(rank) + " read another plan (hash " +
                     hexOf(program) + ") than its launcher (" +
                     hexOf(header.program) +
                     "): the file was written over while the run started; "
                     "start it again",
                 Error::Fault::Rank};
  RankPhase starting = RankPhase::Starting;
  if (!page.rank(rank).phase.compare_exchange_strong(starting,
                                                     RankPhase::Attaching))
    return Error{"rank " + std::to_string(rank) + " was started twice",
                 Error::Fault::Rank};

  std::unique_ptr<ShmTransport> transport(new ShmTransport);
  transport->files = descriptors;
  transport->control = std::move(page);
  transport->self = rank;
  transport->arenas.resize(worldSize);
  fcntl(descriptors.control, F_SETFD, FD_CLOEXEC);
  for (int arena : descriptors.arenas)
    fcntl(arena, F_SETFD, FD_CLOEXEC);
  if (auto mapped = transport->mapArena(rank); !mapped)
    return transport->failed(mapped.error().message);
  RankState &state = transport->control.rank(rank);
  state.process = thisProcess();
  state.phase.store(RankPhase::Running, std::memory_order_release);
  return std::unique_ptr<Transport>(std::move(transport));
}

ShmTransport::~ShmTransport() {
  control.rank(self).phase.store(RankPhase::Left, std::memory_order_release);
  for (Arena &arena : arenas)
    if (arena.base)
      munmap(arena.base, arena.size);
  for (int file : files.arenas)
    close(file);
  close(files.control);
}

Error ShmTransport::failed(const std::string &message) {
  control.abort(message);
  return control.health().error(); // of whoever was first
}

Result<void> ShmTransport::mapArena(int rank) {
  Arena &arena = arenas[rank];
  struct stat status;
  if (arena.base)
    return {};
  if (fstat(files.arenas[rank], &status) != 0)
    return Error{"arena of rank " + std::to_string(rank) + ": " +
                     std::strerror(errno),
                 Error::Fault::Rank};
  if (status.st_size == 0)
    return {};
  void *memory = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, files.arenas[rank], 0);
  if (memory == MAP_FAILED)
    return Error{"mapping the arena of rank " + std::to_string(rank) + " of " +
                     std::to_string(status.st_size) +
                     " bytes: " + std::strerror(errno),
                 Error::Fault::Rank};
  // A rank that crashes would dump the memory of all others, again and again.
  if (rank != self)
    madvise(memory, status.st_size, MADV_DONTDUMP);
  arena.base = static_cast<std::byte *>(memory);
  arena.size = status.st_size;
  return {};
}

std::span<std::byte> ShmTransport::sharedMemory() {
  return {arenas[self].base, arenas[self].size};
}

Result<Group> ShmTransport::createGroup(std::span<const int32_t> ranks) {
  LocalGroup group;
  group.ranks.assign(ranks.begin(), ranks.end());
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].ranks == group.ranks)
      return Group{static_cast<uint32_t>(g)};
  std::vector<bool> seen(worldSize());
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (ranks[m] < 0 || ranks[m] >= worldSize() || seen[ranks[m]])
      return failed("rank " + std::to_string(self) + ": a group names rank " +
                    std::to_string(ranks[m]) + " twice, or beyond the " +
                    std::to_string(worldSize()) + " ranks of the job");
    seen[ranks[m]] = true;
    if (ranks[m] == self)
      group.me = static_cast<int>(m);
  }
  if (!seen[self])
    return failed("rank " + std::to_string(self) +
                  " makes a group to which it does not belong");
  for (int32_t rank : ranks)
    if (auto mapped = mapArena(rank); !mapped)
      return failed(mapped.error().message);
  POLYRANK_ASSIGN(entry, findEntry(ranks));
  group.entry = entry;
  groups.push_back(std::move(group));
  return Group{static_cast<uint32_t>(groups.size() - 1)};
}

/// The entry of this list of ranks in the control page: found, or claimed and
/// filled by whichever member comes first.
Result<uint32_t> ShmTransport::findEntry(std::span<const int32_t> ranks) {
  std::vector<int64_t> wide(ranks.begin(), ranks.end());
  uint64_t key = hashOf(wide);
  for (uint32_t g = 0; g < control.header().groupCapacity; ++g) {
    GroupHeader &entry = control.group(g);
    GroupState state = GroupState::Free;
    if (entry.state.compare_exchange_strong(state, GroupState::Claimed)) {
      entry.key = key;
      entry.size = static_cast<uint32_t>(ranks.size());
      for (size_t m = 0; m < ranks.size(); ++m)
        control.member(g, m).rank = ranks[m];
      entry.state.store(GroupState::Ready, std::memory_order_release);
      return g;
    }
    if (auto ready = awaitReady(entry); !ready)
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

Result<void> ShmTransport::awaitReady(GroupHeader &entry) {
  while (entry.state.load(std::memory_order_acquire) != GroupState::Ready) {
    if (auto alive = control.health(); !alive)
      return alive;
    if (!isAlive(control.header().launcher))
      return failed("the launcher ended before its ranks");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return {};
}

/// Publishes what this rank is about to do, waits for all members, and
/// compares.
Result<void> ShmTransport::agree(LocalGroup &group,
                                 const OperationRecord &record) {
  size_t slot = group.operations++ % 2;
  control.member(group.entry, group.me).records[slot] = record;
  control.rank(self).operation.store(record.id, std::memory_order_relaxed);
  if (auto arrived = arrive(group); !arrived)
    return arrived;
  const OperationRecord &first = control.member(group.entry, 0).records[slot];
  for (size_t m = 1; m < group.ranks.size(); ++m) {
    const OperationRecord &other = control.member(group.entry, m).records[slot];
    if (!(other == first))
      return failed("ranks disagree on what to do next: rank " +
                    std::to_string(group.ranks[0]) + " is at " +
                    describeRecord(first) + ", rank " +
                    std::to_string(group.ranks[m]) + " at " +
                    describeRecord(other));
  }
  return {};
}

Result<void> ShmTransport::check(const Collective &collective) const {
  if (collective.group.index >= groups.size())
    return Error{"no such group", Error::Fault::Rank};
  const LocalGroup &group = groups[collective.group.index];
  return checkCollective(collective, static_cast<int>(group.ranks.size()),
                         group.me, arenas[self].size);
}

Result<void> ShmTransport::run(const Collective &collective) {
  int64_t start = monotonicNanoseconds();
  if (auto alive = control.health(); !alive)
    return alive;
  LocalGroup &group = groups[collective.group.index];
  int members = static_cast<int>(group.ranks.size());
  waited = 0;
  auto offsets = control.offsets(self);
  OperationRecord record = recordOf(collective, members);
  for (size_t begin = 0;;) {
    auto round = collective.transfers.subspan(
        begin,
        std::min<size_t>(roundTransfers, collective.transfers.size() - begin));
    for (size_t t = 0; t < round.size(); ++t)
      offsets[t] = {round[t].input, round[t].output};
    // After the first meeting all inputs are there; after the second, all
    // outputs, and no peer reads this rank's input any more.
    if (auto agreed = agree(group, record); !agreed)
      return agreed;
    const CollectiveRule &rule = ruleOf(collective.kind);
    if (!rule.reduces)
      copyRound(collective, group, round);
    else if (rule.hasBorders())
      addBordersRound(collective, group, round);
    else
      reduceRound(collective, group, round);
    if (auto done = arrive(group); !done)
      return done;
    begin += round.size();
    if (begin >= collective.transfers.size())
      break;
  }

  CollectiveStatistics &counter =
      counters[static_cast<size_t>(collective.kind)];
  ++counter.calls;
  counter.bytes += bytesMoved(collective, members, group.me);
  counter.nanoseconds += monotonicNanoseconds() - start;
  counter.waitingNanoseconds += waited;
  return {};
}

Result<void> ShmTransport::barrier(Group handle) {
  if (auto alive = control.health(); !alive)
    return alive;
  if (handle.index >= groups.size())
    return failed("rank " + std::to_string(self) + ": no such group");
  OperationRecord record{};
  record.kind = barrierKind;
  return agree(groups[handle.index], record);
}

std::byte *ShmTransport::inputOf(const LocalGroup &group, int member,
                                 size_t number) const {
  int rank = group.ranks[member];
  return arenas[rank].base + control.offsets(rank)[number].input;
}

std::byte *ShmTransport::outputOf(const LocalGroup &group, int member,
                                  size_t number) const {
  int rank = group.ranks[member];
  return arenas[rank].base + control.offsets(rank)[number].output;
}

void ShmTransport::inParallel(int64_t range, int64_t grain, int64_t bytes,
                              const RangeBody &body) {
  if (range <= 0)
    return;
  if (threads && bytes >= bytesWorthThreads)
    threads(range, grain, body);
  else
    body(0, range);
}

/// All elements of the round's outputs in one row; this rank owns a contiguous
/// part of it (AllReduce) or sees only its own outputs (ReduceScatter).
void ShmTransport::reduceRound(const Collective &collective,
                               const LocalGroup &group,
                               std::span<const Transfer> round) {
  constexpr int64_t grain = 1024;
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  int members = static_cast<int>(group.ranks.size());
  int64_t element = bytesOf(collective.dtype);
  std::vector<int64_t> starts{0};
  for (const Transfer &transfer : round)
    starts.push_back(starts.back() +
                     elementsOf(collective.kind, transfer, members).output);
  int64_t total = starts.back();
  // Owners' bounds are multiples of 16 elements: whole cache lines of f32.
  auto bound = [&](int64_t part) {
    int64_t lines = (total + 15) / 16;
    return std::min(total, lines * part / members * 16);
  };
  int64_t begin = toAll ? bound(group.me) : 0;
  int64_t end = toAll ? bound(group.me + 1) : total;

  auto reducePiece = [&](int64_t from, int64_t to) {
    std::vector<const std::byte *> sources(members);
    std::vector<std::byte *> results(toAll ? members : 1);
    size_t t = std::upper_bound(starts.begin(), starts.end(), from) -
               starts.begin() - 1;
    while (from < to) {
      const Transfer &transfer = round[t];
      int64_t within = from - starts[t];
      int64_t row = within / transfer.inner, column = within % transfer.inner;
      int64_t count = std::min(transfer.inner - column, to - from);
      int64_t source =
          toAll ? within : (row * members + group.me) * transfer.inner + column;
      for (int m = 0; m < members; ++m)
        sources[m] = inputOf(group, m, t) + source * element;
      for (size_t r = 0; r < results.size(); ++r)
        results[r] = outputOf(group, toAll ? static_cast<int>(r) : group.me, t) +
                     within * element;
      reduceElements(collective.dtype, collective.reduction, sources, count,
                     results);
      from += count;
      if (from == starts[t + 1])
        ++t;
    }
  };
  inParallel(
      end - begin, grain, (end - begin) * element * members,
      [&](int64_t from, int64_t to) { reducePiece(begin + from, begin + to); });
}

/// Each element of this rank's outputs is the sum, in group order, of what the
/// members' widened blocks hold for it.
void ShmTransport::addBordersRound(const Collective &collective,
                                   const LocalGroup &group,
                                   std::span<const Transfer> round) {
  constexpr int64_t grain = 1024;
  int members = static_cast<int>(group.ranks.size());
  int64_t element = bytesOf(collective.dtype);
  for (size_t t = 0; t < round.size(); ++t) {
    int64_t inner = round[t].inner, low = round[t].low;
    int64_t wide = low + inner + round[t].high;
    int64_t total = round[t].outer * inner;
    std::byte *output = outputOf(group, group.me, t);
    auto addPiece = [&](int64_t from, int64_t to) {
      std::vector<const std::byte *> sources;
      while (from < to) {
        int64_t row = from / inner, within = from % inner;
        int64_t count = std::min(inner - within, to - from);
        sources.clear();
        for (int m = 0; m < members; ++m) {
          int64_t at = (group.me - m) * inner + within + low;
          if (at >= wide)
            continue;
          // As far as the same members take part.
          if (at < 0) {
            count = std::min(count, -at);
            continue;
          }
          count = std::min(count, wide - at);
          sources.push_back(inputOf(group, m, t) + (row * wide + at) * element);
        }
        std::byte *result = output + from * element;
        reduceElements(collective.dtype, collective.reduction, sources, count,
                       {&result, 1});
        from += count;
      }
    };
    inParallel(total, grain, total * element * 2, addPiece);
  }
}

/// All bytes that this rank copies into its outputs, in one row.
void ShmTransport::copyRound(const Collective &collective,
                             const LocalGroup &group,
                             std::span<const Transfer> round) {
  constexpr int64_t grain = 4096;
  struct Piece {
    RowCopy copy;
    const std::byte *input = nullptr;
    std::byte *output = nullptr;
  };
  int members = static_cast<int>(group.ranks.size());
  std::vector<Piece> pieces;
  std::vector<int64_t> starts{0};
  for (size_t t = 0; t < round.size(); ++t)
    for (int n = 0; n < sourcesOf(collective.kind, members); ++n) {
      Piece piece{copyOf(collective, round[t], members, group.me, n)};
      piece.input = inputOf(group, piece.copy.source, t);
      piece.output = outputOf(group, group.me, t);
      // This rank's own part of an in-place collective.
      if (piece.input + piece.copy.from == piece.output + piece.copy.to)
        continue;
      pieces.push_back(piece);
      starts.push_back(starts.back() + piece.copy.bytes());
    }
  int64_t total = starts.back();
  bool past = total >= bytesPastCaches;
  inParallel(total, grain, total, [&](int64_t from, int64_t to) {
    size_t p = std::upper_bound(starts.begin(), starts.end(), from) -
               starts.begin() - 1;
    for (; from < to; ++p) {
      int64_t end = std::min(to, starts[p + 1]);
      copyRows(pieces[p].copy, pieces[p].input, pieces[p].output,
               from - starts[p], end - starts[p], past);
      from = end;
    }
  });
}

void ShmTransport::abort(std::string_view message) {
  control.abort("rank " + std::to_string(self) + ": " + std::string(message));
}

void ShmTransport::setProgress(uint64_t step, uint32_t command) {
  RankState &state = control.rank(self);
  state.step.store(step, std::memory_order_relaxed);
  state.command.store(command, std::memory_order_relaxed);
}

void ShmTransport::beat() {
  control.rank(self).beats.fetch_add(1, std::memory_order_relaxed);
}

void ShmTransport::setParallelFor(ParallelFor parallelFor) {
  threads = std::move(parallelFor);
}

} // namespace polyrank::runtime::shm
