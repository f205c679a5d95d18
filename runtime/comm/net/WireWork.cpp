// What moves between machines in a collective, and the sums along them.
//
// What is only copied goes from the source to one member of each machine that
// needs it, which writes it to the outputs of all members there. An all-to-all
// and the borders of a halo differ from member to member and go to each.
//
// A sum is taken in the order of the group. Members that follow each other in
// it, on one machine, are a stage. Pieces go along the stages: each adds its
// members' elements to what came, the last one has the sum, which then goes
// back along the machines. On each machine several members work on it, each on
// parts of its own.

#include "runtime/comm/Reduce.h"
#include "runtime/comm/net/NetCommunicator.h"
#include "support/ElementValues.h"

#include <algorithm>
#include <cstring>
#include <utility>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace polyrank::runtime::net {
namespace {

/// The bytes of a piece, in what a sum is taken in.
constexpr int64_t pieceBytes = 1 << 18;

uint32_t countPieces(int64_t length, int64_t size) {
  return static_cast<uint32_t>((length + size - 1) / size);
}

/// Kinds of which several members of a machine take the same bytes.
bool isShared(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather ||
         kind == CollectiveKind::Broadcast || kind == CollectiveKind::Permute;
}

/// The copy of the same bytes to, or from, consecutive ones.
RowCopy packed(RowCopy copy) {
  copy.to = 0, copy.rowTo = copy.run, copy.outerTo = copy.rows * copy.run;
  return copy;
}
RowCopy unpacked(RowCopy copy) {
  copy.from = 0, copy.rowFrom = copy.run, copy.outerFrom = copy.rows * copy.run;
  return copy;
}

/// What a member's widened block holds for the block of another member.
RowCopy borderOf(const Transfer &transfer, int64_t element, int source,
                 int owner) {
  int64_t wide = transfer.low + transfer.inner + transfer.high;
  // The owner's element 0 in the source's row.
  int64_t at = (owner - source) * transfer.inner + transfer.low;
  int64_t begin = std::clamp<int64_t>(at, 0, wide);
  int64_t end = std::clamp<int64_t>(at + transfer.inner, begin, wide);
  RowCopy copy;
  copy.source = source;
  copy.rows = begin < end ? transfer.outer : 0;
  copy.run = (end - begin) * element;
  copy.rowFrom = copy.rowTo = wide * element;
  copy.from = copy.to = begin * element;
  return copy;
}

template <typename Function>
void forEachPart(const std::vector<int64_t> &starts, int64_t from, int64_t to,
                 const Function &function) {
  size_t p =
      std::upper_bound(starts.begin(), starts.end(), from) - starts.begin() - 1;
  for (; from < to; ++p) {
    int64_t end = std::min(to, starts[p + 1]);
    if (from < end)
      function(p, from - starts[p], end - starts[p]);
    from = std::max(from, end);
  }
}

/// True if the rows of a copy follow each other on one side, which has these
/// strides.
bool isWhole(const RowCopy &copy, int64_t rowStride, int64_t outerStride) {
  return (copy.rows == 1 || rowStride == copy.run) &&
         (copy.outer == 1 || outerStride == copy.rows * copy.run);
}

/// The part in which all of [from, to) lies, or null.
template <typename Part>
const Part *onlyPart(const std::vector<int64_t> &starts,
                     const std::vector<Part> &parts, int64_t from, int64_t to) {
  size_t p =
      std::upper_bound(starts.begin(), starts.end(), from) - starts.begin() - 1;
  return p < parts.size() && to <= starts[p + 1] ? &parts[p] : nullptr;
}

/// The calling thread computes as the rank's own does, as long as this lives.
class FloatMode {
public:
#ifdef __SSE__
  explicit FloatMode(uint32_t mode) : before(_mm_getcsr()) { _mm_setcsr(mode); }
  ~FloatMode() { _mm_setcsr(before); }

private:
  uint32_t before;
#else
  explicit FloatMode(uint32_t) {}
#endif
};

} // namespace

bool NetCommunicator::takes(const WireTask &task, int taker, int source) const {
  if (task.collective.kind == CollectiveKind::Broadcast)
    return source == 0;
  if (task.collective.kind == CollectiveKind::Permute)
    return task.permutation[taker] == source;
  return true;
}

shm::ShmCommunicator::WorkRow
NetCommunicator::rowOf(const WireTask &task, int source, int taker) const {
  WorkRow row;
  CollectiveKind kind = task.collective.kind;
  int members = task.group->members();
  int64_t element = bytesOf(task.collective.dtype);
  row.starts.push_back(0);
  for (size_t t = 0; t < task.transfers.size(); ++t) {
    RowCopy copy;
    if (kind == CollectiveKind::HaloAdd) {
      copy = borderOf(task.transfers[t], element, source, taker);
    } else {
      int number = sourcesOf(kind, members) == 1
                       ? 0
                       : (source - taker + members) % members;
      copy = copyOf(task.collective, task.transfers[t], members, taker, number);
    }
    if (copy.bytes() == 0)
      continue;
    row.parts.push_back({copy, t});
    row.starts.push_back(row.starts.back() + copy.bytes());
  }
  row.end = row.starts.back();
  row.size = pieceBytes;
  row.pieces = countPieces(row.end, row.size);
  return row;
}

int NetCommunicator::handlerOf(const WireTask &task, int machine,
                               uint32_t unit) const {
  const std::vector<int> &members = task.members.at(machine);
  return members[unit % members.size()];
}

std::vector<std::pair<int, shm::ShmCommunicator::WorkRow>>
NetCommunicator::copiesFrom(const WireTask &task) const {
  std::vector<std::pair<int, WorkRow>> copies;
  int me = task.group->me;
  for (const auto &[machine, members] : task.members) {
    if (machine == machines.machine)
      continue;
    std::vector<int> takers;
    for (int member : members)
      if (takes(task, member, me))
        takers.push_back(member);
    if (isShared(task.collective.kind) && !takers.empty())
      takers = {takers[me % takers.size()]};
    for (int taker : takers)
      if (WorkRow row = rowOf(task, me, taker); row.pieces > 0)
        copies.emplace_back(taker, std::move(row));
  }
  return copies;
}

void NetCommunicator::plan(WireTask &task) const {
  for (int m = 0; m < task.group->members(); ++m)
    task.members[machineOf(task, m)].push_back(m);
  if (task.collective.kind == CollectiveKind::HaloAdd)
    planBorders(task);
  else if (ruleOf(task.collective.kind).reduces)
    planSums(task);
  else
    planCopies(task);
}

void NetCommunicator::planCopies(WireTask &task) const {
  for (const auto &[taker, row] : copiesFrom(task))
    task.left += row.pieces;
  int me = task.group->me;
  for (int source = 0; source < task.group->members(); ++source) {
    if (isNear(task.group->ranks[source]))
      continue;
    Incoming incoming;
    incoming.member = source;
    for (int member : task.group->near)
      if (takes(task, member, source))
        incoming.takers.push_back(member);
    if (!isShared(task.collective.kind))
      incoming.takers = {me};
    if (incoming.takers.empty() ||
        incoming.takers[source % incoming.takers.size()] != me)
      continue;
    incoming.row = rowOf(task, source, me);
    incoming.pieces = incoming.row.pieces;
    task.left += incoming.pieces;
    if (incoming.pieces > 0)
      task.incoming.push_back(std::move(incoming));
  }
}

void NetCommunicator::planBorders(WireTask &task) const {
  for (const auto &[owner, row] : copiesFrom(task))
    task.left += row.pieces;
  int me = task.group->me;
  task.left += 1; // the sum
  int64_t element = bytesOf(task.collective.dtype);
  for (int source = 0; source < task.group->members(); ++source) {
    if (isNear(task.group->ranks[source]))
      continue;
    Incoming incoming;
    incoming.member = source;
    incoming.row = rowOf(task, source, me);
    incoming.pieces = incoming.row.pieces;
    // Memory like that of the source, of which only the borders are used.
    auto &[bytes, offsets] = task.borders[source];
    uint64_t size = 0;
    for (const Transfer &transfer : task.transfers) {
      offsets.push_back({size, 0});
      size += transfer.outer * (transfer.low + transfer.inner + transfer.high) *
              element;
    }
    if (incoming.pieces == 0)
      continue;
    bytes.resize(size);
    task.left += incoming.pieces;
    task.bordersLeft += incoming.pieces;
    task.incoming.push_back(std::move(incoming));
  }
}

void NetCommunicator::planSums(WireTask &task) const {
  const Collective &collective = task.collective;
  int members = task.group->members();
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  for (int m = 0; m < members; ++m) {
    int machine = machineOf(task, m);
    if (task.stages.empty() || task.stages.back().machine != machine)
      task.stages.push_back({machine, {}});
    task.stages.back().members.push_back(m);
  }
  // The result goes back the way that the sum came.
  for (auto stage = task.stages.rbegin(); stage != task.stages.rend(); ++stage)
    if (std::find(task.resultPath.begin(), task.resultPath.end(),
                  stage->machine) == task.resultPath.end())
      task.resultPath.push_back(stage->machine);
  task.starts.push_back(0);
  for (const Transfer &transfer : task.transfers)
    task.starts.push_back(
        task.starts.back() +
        elementsOf(collective.kind, transfer, members).output);
  int64_t total = task.starts.back();
  size_t units = members;
  if (toAll) {
    units = 1;
    for (const auto &[machine, there] : task.members)
      units = std::max(units, there.size());
  }
  int64_t lines = (total + 15) / 16;
  auto bound = [&](uint32_t part) {
    return std::min<int64_t>(total, lines * part / int64_t(units) * 16);
  };
  int me = task.group->me;
  size_t last = task.stages.size() - 1;
  for (uint32_t number = 0; number < units; ++number) {
    Unit unit;
    unit.number = number;
    unit.begin = toAll ? bound(number) : 0;
    unit.end = toAll ? bound(number + 1) : total;
    unit.pieces = countPieces(unit.end - unit.begin,
                              pieceBytes / accumulatorBytes(collective.dtype));
    unit.nextPartial.resize(task.stages.size());
    uint64_t frames = 0; // of each piece
    bool isMine = false;
    for (size_t stage = 0; stage <= last; ++stage)
      if (handlerOf(task, task.stages[stage].machine, number) == me) {
        isMine = true;
        frames += (stage > 0) + (stage < last);
      }
    int lastMachine = task.stages[last].machine;
    if (toAll) {
      for (size_t n = 0; n < task.resultPath.size(); ++n)
        if (handlerOf(task, task.resultPath[n], number) == me)
          frames += (n > 0) + (n + 1 < task.resultPath.size());
    } else if (int owner = int(number); machineOf(task, owner) != lastMachine) {
      frames += (owner == me) + (handlerOf(task, lastMachine, number) == me);
      isMine |= owner == me;
    }
    task.left += frames * unit.pieces;
    if (isMine && unit.pieces > 0)
      task.units.push_back(std::move(unit));
  }
}

/// Begins to send what operations have whose turn has come, and ends those of
/// which nothing is left.
Result<void> NetCommunicator::advance() {
  for (const std::shared_ptr<WireTask> &task : tasks) {
    if (slotOf(*task).turn.load(std::memory_order_acquire) != task->turn() + 1)
      continue;
    if (!std::exchange(task->hasSent, true))
      sendAll(task);
  }
  std::erase_if(tasks, [&](const std::shared_ptr<WireTask> &task) {
    bool isDone = task->hasSent && task->left == 0;
    if (isDone)
      finishPieces(*task, 1);
    return isDone;
  });
  return {};
}

void NetCommunicator::sendAll(const std::shared_ptr<WireTask> &task) {
  CollectiveKind kind = task->collective.kind;
  bool addsBorders = kind == CollectiveKind::HaloAdd;
  if (!ruleOf(kind).reduces || addsBorders) {
    for (auto &[target, row] : copiesFrom(*task))
      sendRow(task, std::move(row),
              addsBorders ? FrameKind::Border : FrameKind::Copy, target);
    if (addsBorders && task->bordersLeft == 0)
      addBorders(*task);
    return;
  }
  for (const Unit &unit : task->units) {
    if (handlerOf(*task, task->stages[0].machine, unit.number) !=
        task->group->me)
      continue;
    int next = handlerOf(*task, task->stages[1].machine, unit.number);
    streams[task->group->ranks[next]].push_back(
        {0, unit.pieces, [this, task, &unit](uint32_t piece) {
           sumPiece(task, unit, 0, piece, nullptr);
         }});
  }
}

Frame NetCommunicator::frameOf(const WireTask &task, FrameKind kind,
                               uint32_t unit, uint32_t piece,
                               uint16_t stage) const {
  Frame frame;
  frame.kind = kind;
  frame.group = task.key;
  frame.operation = task.number;
  frame.unit = unit;
  frame.piece = piece;
  frame.stage = stage;
  frame.collective = static_cast<uint8_t>(task.collective.kind);
  frame.dtype = static_cast<uint8_t>(task.collective.dtype);
  frame.reduction = static_cast<uint8_t>(task.collective.reduction);
  return frame;
}

void NetCommunicator::sendPiece(const std::shared_ptr<WireTask> &task, int rank,
                                const Frame &frame, Piece piece) {
  wire->send(rank, frame, {piece.bytes, std::move(piece.owner), task});
}

void NetCommunicator::sendRow(const std::shared_ptr<WireTask> &task,
                              WorkRow row, FrameKind kind, int target) {
  int peer = task->group->ranks[target];
  Stream stream;
  stream.pieces = row.pieces;
  stream.send = [this, task, row = std::move(row), kind, peer](uint32_t piece) {
    int me = task->group->me;
    Places mine = placesOf(*task, me);
    int64_t from = piece * row.size, to = std::min(row.end, from + row.size);
    Frame frame = frameOf(*task, kind, static_cast<uint32_t>(me), piece, 0);
    if (const auto *part = onlyPart(row.starts, row.parts, from, to))
      if (isWhole(part->copy, part->copy.rowFrom, part->copy.outerFrom)) {
        size_t p = part - row.parts.data();
        const std::byte *first = mine.input(part->transfer) + part->copy.from;
        std::span bytes(first + (from - row.starts[p]), size_t(to - from));
        return sendPiece(task, peer, frame, {bytes, nullptr});
      }
    auto bytes = std::make_shared<Bytes>(to - from);
    forEachPart(
        row.starts, from, to, [&](size_t p, int64_t begin, int64_t end) {
          copyRows(packed(row.parts[p].copy), mine.input(row.parts[p].transfer),
                   bytes->data() + (row.starts[p] - from), begin, end);
        });
    sendPiece(task, peer, frame, {*bytes, bytes});
  };
  streams[peer].push_back(std::move(stream));
}

void NetCommunicator::sent(const std::shared_ptr<void> &token) {
  --static_cast<WireTask *>(token.get())->left;
}

std::shared_ptr<NetCommunicator::WireTask>
NetCommunicator::taskOf(const Frame &frame) const {
  for (const std::shared_ptr<WireTask> &task : tasks)
    if (task->key == frame.group && task->number == frame.operation)
      return task;
  return nullptr;
}

NetCommunicator::Incoming *
NetCommunicator::incomingOf(WireTask &task, const Frame &frame) const {
  for (Incoming &each : task.incoming)
    if (uint32_t(each.member) == frame.unit)
      return &each;
  return nullptr;
}

NetCommunicator::Unit *NetCommunicator::unitOf(WireTask &task,
                                               const Frame &frame) const {
  for (Unit &each : task.units)
    if (each.number == frame.unit)
      return &each;
  return nullptr;
}

std::optional<uint64_t>
NetCommunicator::expectedBytes(WireTask &task, int peer,
                               const Frame &frame) const {
  CollectiveKind kind = task.collective.kind;
  int me = task.group->me;
  auto isFrom = [&](int member) { return task.group->ranks[member] == peer; };
  bool isBorder = kind == CollectiveKind::HaloAdd;
  if (frame.kind == FrameKind::Copy || frame.kind == FrameKind::Border) {
    Incoming *incoming = incomingOf(task, frame);
    if (!incoming || !isFrom(incoming->member) ||
        isBorder != (frame.kind == FrameKind::Border) ||
        frame.piece != incoming->next || frame.piece >= incoming->pieces)
      return std::nullopt;
    int64_t from = frame.piece * incoming->row.size;
    return std::min(incoming->row.end, from + incoming->row.size) - from;
  }
  Unit *unit = unitOf(task, frame);
  if (!unit || frame.piece >= unit->pieces)
    return std::nullopt;
  int64_t accumulator = accumulatorBytes(task.collective.dtype),
          size = pieceBytes / accumulator,
          from = unit->begin + frame.piece * size;
  uint64_t elements = std::min(unit->end, from + size) - from;
  size_t stages = task.stages.size();
  if (frame.kind == FrameKind::Partial) {
    bool isNext =
        frame.stage > 0 && frame.stage < stages &&
        handlerOf(task, task.stages[frame.stage].machine, frame.unit) == me &&
        isFrom(handlerOf(task, task.stages[frame.stage - 1].machine,
                         frame.unit)) &&
        frame.piece == unit->nextPartial[frame.stage];
    return isNext ? std::optional(elements * accumulator) : std::nullopt;
  }
  bool isNext = frame.piece == unit->nextResult;
  if (kind == CollectiveKind::AllReduce)
    isNext &=
        frame.stage > 0 && frame.stage < task.resultPath.size() &&
        handlerOf(task, task.resultPath[frame.stage], frame.unit) == me &&
        isFrom(handlerOf(task, task.resultPath[frame.stage - 1], frame.unit));
  else
    isNext &= int(frame.unit) == me &&
              isFrom(handlerOf(task, task.stages.back().machine, frame.unit));
  return isNext ? std::optional(elements * bytesOf(task.collective.dtype))
                : std::nullopt;
}

Result<std::byte *> NetCommunicator::placeOfPiece(int peer,
                                                  const Frame &frame) {
  // After an abort what still comes is read and forgotten.
  if (!hasToldAbort) {
    std::shared_ptr<WireTask> task = taskOf(frame);
    if (!task) {
      // Once this rank has started it, the other ranks of this machine may have
      // sent their parts before this thread has heard of it.
      takePosted();
      task = taskOf(frame);
    }
    if (!task)
      return wrong(peer, frame,
                   "is of none that rank " + std::to_string(self) +
                       " has started");
    Frame mine = frameOf(*task, frame.kind, 0, 0, 0);
    if (mine.collective != frame.collective || mine.dtype != frame.dtype ||
        mine.reduction != frame.reduction)
      return wrong(peer, frame,
                   "is no part of " +
                       runtime::describe(
                           task->collective.kind, task->collective.reduction,
                           task->collective.dtype,
                           task->starts.empty() ? 0 : task->starts.back()));
    // Starts of other machines may still be on their way.
    for (int member : task->group->near)
      if (memberOf(*task, member).arrival.load(std::memory_order_acquire) !=
          task->turn() + 1)
        return wrong(peer, frame,
                     "comes before rank " +
                         std::to_string(task->group->ranks[member]) +
                         " has started it");
    std::optional<uint64_t> expected = expectedBytes(*task, peer, frame);
    if (!expected || *expected != frame.bytes)
      return wrong(peer, frame,
                   expected ? "should have " + std::to_string(*expected)
                            : "is not the next");
  }
  buffers[peer] = hasToldAbort ? nullptr : bufferOf(*taskOf(frame), frame);
  if (buffers[peer])
    return buffers[peer];
  std::shared_ptr<Bytes> &piece = pieces[peer];
  if (!piece || piece.use_count() > 1) // it is still on its way to others
    piece = std::make_shared<Bytes>();
  piece->resize(frame.bytes);
  return piece->data();
}

std::byte *NetCommunicator::outputOf(const WireTask &task, int member,
                                     int64_t from, int64_t to) const {
  if (!onlyPart(task.starts, task.transfers, from, to))
    return nullptr;
  size_t t = std::upper_bound(task.starts.begin(), task.starts.end(), from) -
             task.starts.begin() - 1;
  return placesOf(task, member).output(t) +
         (from - task.starts[t]) * bytesOf(task.collective.dtype);
}

std::vector<int> NetCommunicator::takersOf(const WireTask &task,
                                           const Unit &unit) const {
  if (task.collective.kind == CollectiveKind::AllReduce)
    return task.group->near;
  int owner = static_cast<int>(unit.number);
  return isNear(task.group->ranks[owner]) ? std::vector<int>{owner}
                                          : std::vector<int>();
}

std::byte *NetCommunicator::bufferOf(WireTask &task, const Frame &frame) const {
  if (frame.kind == FrameKind::Copy) {
    const Incoming &incoming = *incomingOf(task, frame);
    const WorkRow &row = incoming.row;
    int64_t from = frame.piece * row.size;
    const auto *part =
        onlyPart(row.starts, row.parts, from, from + frame.bytes);
    if (!part || !isWhole(part->copy, part->copy.rowTo, part->copy.outerTo))
      return nullptr;
    return placesOf(task, incoming.takers.front()).output(part->transfer) +
           part->copy.to + (from - row.starts[part - row.parts.data()]);
  }
  if (frame.kind == FrameKind::Result) {
    const Unit &unit = *unitOf(task, frame);
    int64_t from =
        unit.begin +
        frame.piece * (pieceBytes / accumulatorBytes(task.collective.dtype));
    return outputOf(task, takersOf(task, unit).front(), from,
                    from + frame.bytes / bytesOf(task.collective.dtype));
  }
  return nullptr;
}

Result<void> NetCommunicator::addPiece(int peer, const Frame &frame) {
  std::shared_ptr<WireTask> task = taskOf(frame);
  if (!task)
    return {}; // the job is over
  --task->left;
  Piece piece;
  if (buffers[peer])
    piece.bytes = {buffers[peer], frame.bytes};
  else
    piece = {*pieces[peer], pieces[peer]};
  switch (frame.kind) {
  case FrameKind::Partial:
    return addPartial(task, frame, piece);
  case FrameKind::Result:
    return addResult(task, frame, piece);
  default:
    return addCopy(*task, frame, piece);
  }
}

Result<void> NetCommunicator::addCopy(WireTask &task, const Frame &frame,
                                      const Piece &piece) {
  Incoming &incoming = *incomingOf(task, frame);
  const WorkRow &row = incoming.row;
  std::span<const std::byte> bytes = piece.bytes;
  ++incoming.next;
  int64_t from = frame.piece * row.size;
  bool isBorder = frame.kind == FrameKind::Border;
  auto copyTo = [&](const std::function<std::byte *(size_t)> &outputOf) {
    forEachPart(row.starts, from, from + int64_t(bytes.size()),
                [&](size_t p, int64_t begin, int64_t end) {
                  copyRows(unpacked(row.parts[p].copy),
                           bytes.data() + (row.starts[p] - from),
                           outputOf(row.parts[p].transfer), begin, end);
                });
  };
  if (!isBorder) {
    // It was received into the first one's output, or is copied there, too.
    for (int taker : std::span(incoming.takers).subspan(!piece.owner)) {
      Places places = placesOf(task, taker);
      copyTo([&](size_t t) { return places.output(t); });
    }
    return {};
  }
  auto &[border, offsets] = task.borders[incoming.member];
  copyTo([&](size_t t) { return border.data() + offsets[t].input; });
  if (--task.bordersLeft == 0 && task.hasSent)
    addBorders(task);
  return {};
}

/// Sums what is there for this rank's blocks, once all of it is.
void NetCommunicator::addBorders(WireTask &task) {
  FloatMode mode(task.floatMode);
  int me = task.group->me;
  WorkRow row;
  row.starts.push_back(0);
  for (const Transfer &transfer : task.transfers)
    row.starts.push_back(row.starts.back() + transfer.outer * transfer.inner);
  std::vector<std::vector<shm::BufferOffsets>> rings;
  rings.reserve(task.borders.size());
  std::vector<Places> places;
  for (int m = 0; m < task.group->members(); ++m) {
    auto border = task.borders.find(m);
    if (border == task.borders.end()) {
      places.push_back(placesOf(task, m));
      continue;
    }
    places.push_back(
        {border->second.first.data(), border->second.second.data(), 0});
  }
  addBordersPiece(task, row, places, me, 0, row.starts.back());
  --task.left;
}

Result<void> NetCommunicator::addPartial(const std::shared_ptr<WireTask> &task,
                                         const Frame &frame,
                                         const Piece &piece) {
  Unit &unit = *unitOf(*task, frame);
  ++unit.nextPartial[frame.stage];
  sumPiece(task, unit, frame.stage, frame.piece, piece.bytes.data());
  return {};
}

void NetCommunicator::sumPiece(const std::shared_ptr<WireTask> &task,
                               const Unit &unit, size_t stage, uint32_t piece,
                               const std::byte *partial) {
  FloatMode mode(task->floatMode);
  const Collective &collective = task->collective;
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  int64_t element = bytesOf(collective.dtype),
          accumulator = accumulatorBytes(collective.dtype),
          size = pieceBytes / accumulator, from = unit.begin + piece * size,
          to = std::min(unit.end, from + size);
  bool isLast = stage + 1 == task->stages.size();
  int members = task->group->members(), owner = static_cast<int>(unit.number);
  int64_t width = isLast ? element : accumulator;
  std::vector<int> takers = isLast ? takersOf(*task, unit) : std::vector<int>();
  Piece out;
  std::byte *into =
      takers.empty() ? nullptr : outputOf(*task, takers.front(), from, to);
  if (!into) {
    auto bytes = std::make_shared<Bytes>((to - from) * width);
    into = bytes->data();
    out.owner = std::move(bytes);
  }
  out.bytes = {into, size_t((to - from) * width)};
  std::vector<Places> places;
  for (int member : task->stages[stage].members)
    places.push_back(placesOf(*task, member));
  std::vector<const std::byte *> sources(places.size());
  forEachPart(
      task->starts, from, to, [&](size_t t, int64_t begin, int64_t end) {
        const Transfer &transfer = task->transfers[t];
        for (int64_t at = begin; at < end;) {
          int64_t line = at / transfer.inner, column = at % transfer.inner;
          int64_t count = std::min(transfer.inner - column, end - at);
          int64_t source =
              toAll ? at : (line * members + owner) * transfer.inner + column;
          for (size_t m = 0; m < places.size(); ++m)
            sources[m] = places[m].input(t) + source * element;
          int64_t offset = task->starts[t] + at - from;
          // One member's elements, as they are, are the first partial sum.
          if (!partial && places.size() == 1 && width == element && !isLast &&
              count == to - from) {
            out = {{sources[0], size_t(count * element)}, nullptr};
            return;
          }
          addElements(collective.dtype, collective.reduction,
                      partial ? partial + offset * accumulator : nullptr,
                      sources, count, into + offset * width, isLast);
          at += count;
        }
      });
  if (isLast)
    return deliver(task, unit, piece, std::move(out), 0);
  int next = handlerOf(*task, task->stages[stage + 1].machine, unit.number);
  sendPiece(task, task->group->ranks[next],
            frameOf(*task, FrameKind::Partial, unit.number, piece,
                    static_cast<uint16_t>(stage + 1)),
            std::move(out));
}

/// Writes a piece of the result to the outputs of this machine that it is for,
/// and passes it on. It has no owner if it is in the first of these outputs.
/// `place` is how far along the machines it is.
void NetCommunicator::deliver(const std::shared_ptr<WireTask> &task,
                              const Unit &unit, uint32_t piece, Piece result,
                              size_t place) {
  bool toAll = task->collective.kind == CollectiveKind::AllReduce;
  int64_t element = bytesOf(task->collective.dtype),
          size = pieceBytes / accumulatorBytes(task->collective.dtype),
          from = unit.begin + piece * size;
  std::vector<int> takers = takersOf(*task, unit);
  for (int member : std::span(takers).subspan(!result.owner)) {
    Places places = placesOf(*task, member);
    forEachPart(task->starts, from,
                from + int64_t(result.bytes.size()) / element,
                [&](size_t t, int64_t begin, int64_t end) {
                  std::memcpy(places.output(t) + begin * element,
                              result.bytes.data() +
                                  (task->starts[t] + begin - from) * element,
                              (end - begin) * element);
                });
  }
  int next = static_cast<int>(unit.number);
  if (toAll) {
    if (place + 1 == task->resultPath.size())
      return;
    next = handlerOf(*task, task->resultPath[place + 1], unit.number);
  } else if (!takers.empty()) {
    return;
  }
  sendPiece(task, task->group->ranks[next],
            frameOf(*task, FrameKind::Result, unit.number, piece,
                    static_cast<uint16_t>(place + 1)),
            std::move(result));
}

Result<void> NetCommunicator::addResult(const std::shared_ptr<WireTask> &task,
                                        const Frame &frame,
                                        const Piece &piece) {
  Unit &unit = *unitOf(*task, frame);
  ++unit.nextResult;
  deliver(task, unit, frame.piece, piece, frame.stage);
  return {};
}

} // namespace polyrank::runtime::net
