// The work of a collective, cut into pieces that any available rank claims.
//
// Each member owns a part of the work: in an all-reduce a range of the
// elements, otherwise its own outputs. Its part is cut into pieces; a rank
// claims a piece by decrementing the owner's counter. Each rank begins with its
// own part, whose memory is near, and then works on unclaimed pieces of other
// members, so that a late member finds its outputs done. No bit depends on
// which rank does a piece: one rank sums each element in group order.
//
// The offsets that members publish may be read only between claiming and
// finishing a piece: meanwhile the operation cannot end, and its slot cannot be
// reused.

#include "runtime/comm/Reduce.h"
#include "runtime/comm/shm/ShmCommunicator.h"

#include <algorithm>
#include <atomic>
#include <optional>

namespace polyrank::runtime::shm {
namespace {

/// For fewer bytes, waking the team costs more than it saves.
constexpr int64_t bytesWorthThreads = 1 << 17;
/// From this size on, a copy does not stay in a core's caches.
constexpr int64_t bytesPastCaches = 8 << 20;
/// The bytes of a piece: claiming it takes less than a thousandth of the time
/// to move it.
constexpr int64_t pieceBytes = 1 << 17;

bool reduces(const Collective &collective) {
  return ruleOf(collective.kind).reduces;
}

} // namespace

ShmCommunicator::Places ShmCommunicator::placesOf(const Task &operation,
                                                  int member) const {
  int rank = operation.group->ranks[member];
  if (!isNear(rank))
    return {carriedBy(operation, member), operation.carriedAt.data(), 0};
  return {arenas[rank].base, control.offsets(rank).data(),
          memberOf(operation, member).firstOffsets};
}

std::span<const ShmCommunicator::Places>
ShmCommunicator::allPlaces(const Task &operation) const {
  thread_local std::vector<Places> places;
  places.clear();
  for (int m = 0; m < operation.group->members(); ++m)
    places.push_back(placesOf(operation, m));
  return places;
}

/// Ranks synchronize once instead of twice in a small operation.
bool ShmCommunicator::isSmall(const Task &operation) const {
  const Collective &collective = operation.collective;
  return isSmallCollective(collective.kind, bytesOf(collective.dtype),
                           collective.transfers, operation.group->members(),
                           operation.group->crosses());
}

uint64_t ShmCommunicator::packInputs(Task &operation) const {
  const Collective &collective = operation.collective;
  uint64_t bytes = 0;
  for (const Transfer &transfer : collective.transfers) {
    operation.carriedAt.push_back({bytes, 0});
    bytes += elementsOf(collective.kind, transfer, operation.group->members())
                 .input *
             bytesOf(collective.dtype);
  }
  return bytes;
}

void ShmCommunicator::fillRow(const Task &operation, int owner,
                              WorkRow &row) const {
  const Collective &collective = operation.collective;
  int members = operation.group->members();
  int64_t element = bytesOf(collective.dtype), grain = 1024;
  row.begin = row.end = 0;
  row.pieces = 0;
  row.parts.clear();
  row.starts.assign(1, 0);
  // What moves between machines is in no piece.
  bool staysHere = operation.group->crosses() && !operation.isSmall;
  if (reduces(collective) && staysHere)
    return;
  if (reduces(collective)) {
    for (const Transfer &transfer : collective.transfers)
      row.starts.push_back(
          row.starts.back() +
          elementsOf(collective.kind, transfer, members).output);
    row.end = row.starts.back();
    // Parts begin at multiples of 16 elements: whole cache lines of f32.
    if (collective.kind == CollectiveKind::AllReduce) {
      int64_t total = row.end;
      auto bound = [&](int64_t part) {
        int64_t lines = (total + 15) / 16;
        return std::min(total, lines * part / members * 16);
      };
      row.begin = bound(owner);
      row.end = bound(owner + 1);
    }
  } else {
    element = 1, grain = 4096;
    Places places = placesOf(operation, owner);
    for (size_t t = 0; t < collective.transfers.size(); ++t)
      for (int n = 0; n < sourcesOf(collective.kind, members); ++n) {
        RowCopy copy =
            copyOf(collective, collective.transfers[t], members, owner, n);
        if (staysHere && !isNear(operation.group->ranks[copy.source]))
          continue;
        // Skips the owner's own part of an in-place collective.
        if (copy.source == owner) {
          const BufferOffsets &at = places.at(t);
          if (at.input + copy.from == at.output + copy.to)
            continue;
        }
        row.parts.push_back({copy, t});
        row.starts.push_back(row.starts.back() + copy.bytes());
      }
    row.end = row.starts.back();
  }
  int64_t length = row.end - row.begin;
  if (length <= 0)
    return;
  int64_t wanted = (length * element + pieceBytes - 1) / pieceBytes;
  row.size = (length + wanted - 1) / wanted;
  row.size = (row.size + grain - 1) / grain * grain;
  row.pieces = static_cast<uint32_t>((length + row.size - 1) / row.size);
}

/// Claims a piece. Returns false if there was none; else `left` is the number
/// of the owner's remaining pieces.
bool ShmCommunicator::claim(const Task &operation, int owner,
                            uint32_t &left) const {
  std::atomic<uint64_t> &claims = claimsOf(operation, owner);
  uint64_t now = claims.load(std::memory_order_acquire);
  while (uint32_t(now >> 32) == operation.turn() + 1 && uint32_t(now) != 0)
    if (claims.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel)) {
      left = uint32_t(now) - 1;
      return true;
    }
  return false;
}

/// Notes that this thread has finished `count` pieces. It must not hold any
/// other piece of the operation.
void ShmCommunicator::finishPieces(const Task &operation,
                                   uint32_t count) const {
  OperationSlot &slot = slotOf(operation);
  if (slot.progress.fetch_sub(count, std::memory_order_acq_rel) != count)
    return;
  slot.lastFinisher = self;
  slot.finishedAt = monotonicNanoseconds();
  slot.turn.store(operation.turn() + 2);
  if (slot.sleepers.load() > 0)
    wake(operation);
  if (operation.group->crosses())
    hasEnded(*operation.group);
}

/// Does the whole operation on this thread, for the outputs on this machine.
void ShmCommunicator::workAlone(const Task &operation) const {
  std::span<const int> owners = operation.group->near;
  // In an all-reduce one owner can cover the elements of all members.
  bool isShared = operation.collective.kind == CollectiveKind::AllReduce;
  WorkRow row;
  for (int owner : isShared ? owners.first(1) : owners) {
    fillRow(operation, owner, row);
    workOn(operation, row, owner, isShared ? 0 : row.begin,
           isShared ? row.starts.back() : row.end);
  }
}

bool ShmCommunicator::work(const Task &operation, const WorkRow &own,
                           const ParallelFor &team) const {
  int members = operation.group->members();
  uint32_t left = 0;
  bool hasWorked = false;
  for (int n = 0; n < members; ++n) {
    int owner = (operation.group->me + n) % members;
    if (!claim(operation, owner, left))
      continue;
    hasWorked = true;
    WorkRow others;
    if (n != 0)
      fillRow(operation, owner, others);
    const WorkRow &row = n == 0 ? own : others;
    // Works on pieces in order. `piece` is one that was claimed before.
    auto doPieces = [&](std::optional<uint32_t> piece) {
      uint32_t next = 0, done = 0;
      if (!piece && claim(operation, owner, next))
        piece = next;
      for (; piece; ++done) {
        int64_t from = row.begin + (row.pieces - 1 - *piece) * row.size;
        workOn(operation, row, owner, from, std::min(row.end, from + row.size));
        piece.reset();
        if (claim(operation, owner, next))
          piece = next;
      }
      if (done)
        finishPieces(operation, done);
    };
    int64_t bytes = (left + 1) * row.size;
    if (reduces(operation.collective))
      bytes *=
          bytesOf(operation.collective.dtype) *
          (operation.collective.kind == CollectiveKind::HaloAdd ? 2 : members);
    if (!team || left == 0 || bytes < bytesWorthThreads) {
      doPieces(left);
      continue;
    }
    std::atomic<int64_t> first = left; // claimed here, done by one of the team
    team(int64_t(left) + 1, 1, [&](int64_t, int64_t) {
      int64_t mine = first.exchange(-1);
      doPieces(mine >= 0 ? std::optional(static_cast<uint32_t>(mine))
                         : std::nullopt);
    });
  }
  return hasWorked;
}

void ShmCommunicator::workOn(const Task &operation, const WorkRow &row,
                             int owner, int64_t from, int64_t to) const {
  const CollectiveRule &rule = ruleOf(operation.collective.kind);
  if (!rule.reduces)
    copyPiece(operation, row, owner, from, to);
  else if (rule.hasBorders())
    addBordersPiece(operation, row, allPlaces(operation), owner, from, to);
  else
    reducePiece(operation, row, owner, from, to);
}

/// Reduces elements [from, to) of the row, for the outputs of all members of
/// this machine (AllReduce) or of the owner (ReduceScatter).
void ShmCommunicator::reducePiece(const Task &operation, const WorkRow &row,
                                  int owner, int64_t from, int64_t to) const {
  const Collective &collective = operation.collective;
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  int members = operation.group->members();
  int64_t element = bytesOf(collective.dtype);
  std::span<const Places> places = allPlaces(operation);
  thread_local std::vector<const std::byte *> sources;
  thread_local std::vector<std::byte *> results;
  sources.resize(members);
  const std::vector<int> &near = operation.group->near;
  results.resize(toAll ? near.size() : 1);
  size_t t = std::upper_bound(row.starts.begin(), row.starts.end(), from) -
             row.starts.begin() - 1;
  while (from < to) {
    const Transfer &transfer = collective.transfers[t];
    int64_t within = from - row.starts[t];
    int64_t line = within / transfer.inner, column = within % transfer.inner;
    int64_t count = std::min(transfer.inner - column, to - from);
    int64_t source =
        toAll ? within : (line * members + owner) * transfer.inner + column;
    for (int m = 0; m < members; ++m)
      sources[m] = places[m].input(t) + source * element;
    for (size_t r = 0; r < results.size(); ++r)
      results[r] = places[toAll ? near[r] : owner].output(t) + within * element;
    reduceElements(collective.dtype, collective.reduction, sources, count,
                   results);
    from += count;
    if (from == row.starts[t + 1])
      ++t;
  }
}

/// Each element of the owner's outputs is the sum, in group order, of what the
/// members' widened blocks hold for it.
void ShmCommunicator::addBordersPiece(const Task &operation, const WorkRow &row,
                                      std::span<const Places> places, int owner,
                                      int64_t from, int64_t to) const {
  const Collective &collective = operation.collective;
  int members = operation.group->members();
  int64_t element = bytesOf(collective.dtype);
  thread_local std::vector<const std::byte *> sources;
  size_t t = std::upper_bound(row.starts.begin(), row.starts.end(), from) -
             row.starts.begin() - 1;
  while (from < to) {
    const Transfer &transfer = collective.transfers[t];
    int64_t inner = transfer.inner, low = transfer.low;
    int64_t wide = low + inner + transfer.high;
    int64_t place = from - row.starts[t];
    int64_t line = place / inner, within = place % inner;
    int64_t count = std::min(inner - within, to - from);
    sources.clear();
    for (int m = 0; m < members; ++m) {
      int64_t at = (owner - m) * inner + within + low;
      if (at >= wide)
        continue;
      // The run extends as far as the same members contribute.
      if (at < 0) {
        count = std::min(count, -at);
        continue;
      }
      count = std::min(count, wide - at);
      sources.push_back(places[m].input(t) + (line * wide + at) * element);
    }
    std::byte *result = places[owner].output(t) + place * element;
    reduceElements(collective.dtype, collective.reduction, sources, count,
                   {&result, 1});
    from += count;
    if (from == row.starts[t + 1])
      ++t;
  }
}

/// Copies bytes [from, to) of all that goes into the owner's outputs.
void ShmCommunicator::copyPiece(const Task &operation, const WorkRow &row,
                                int owner, int64_t from, int64_t to) const {
  std::span<const Places> places = allPlaces(operation);
  bool past = row.end >= bytesPastCaches;
  size_t p = std::upper_bound(row.starts.begin(), row.starts.end(), from) -
             row.starts.begin() - 1;
  for (; from < to; ++p) {
    const auto &[copy, transfer] = row.parts[p];
    int64_t end = std::min(to, row.starts[p + 1]);
    copyRows(copy, places[copy.source].input(transfer),
             places[owner].output(transfer), from - row.starts[p],
             end - row.starts[p], past);
    from = end;
  }
}

} // namespace polyrank::runtime::shm
