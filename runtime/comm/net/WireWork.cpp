// What moves between machines in a collective: the pieces that this rank sends
// and takes, once the operation has begun.

#include "runtime/comm/Reduce.h"
#include "runtime/comm/net/NetCommunicator.h"
#include "runtime/comm/net/WirePieces.h"
#include "support/ElementValues.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// The copy of the same bytes to, or from, consecutive ones.
RowCopy packed(RowCopy copy) {
  copy.to = 0, copy.rowTo = copy.run, copy.outerTo = copy.rows * copy.run;
  return copy;
}
RowCopy unpacked(RowCopy copy) {
  copy.from = 0, copy.rowFrom = copy.run, copy.outerFrom = copy.rows * copy.run;
  return copy;
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

} // namespace

/// Begins to send what operations have whose turn has come, and ends those of
/// which nothing is left.
void NetCommunicator::advance() {
  auto turnOf = [&](const WireTask &task) {
    return slotOf(task).turn.load(std::memory_order_acquire);
  };
  for (const std::shared_ptr<WireTask> &task : tasks) {
    if (task->isSmall || turnOf(*task) != task->turn() + 1)
      continue;
    if (!std::exchange(task->hasSent, true))
      sendAll(task);
  }
  std::erase_if(tasks, [&](const std::shared_ptr<WireTask> &task) {
    if (task->isSmall)
      return int32_t(turnOf(*task) - task->turn()) >= 2;
    bool isDone = task->hasSent && task->left == 0;
    if (isDone)
      finishPieces(*task, 1);
    return isDone;
  });
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
    if (handlerAt(*task, unit, 0) != task->group->me)
      continue;
    int next = handlerAt(*task, unit, 1);
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
NetCommunicator::taskOf(uint64_t key, uint64_t operation) const {
  for (const std::shared_ptr<WireTask> &task : tasks)
    if (task->key == key && task->number == operation)
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
  if (frame.kind == FrameKind::Partial) {
    bool isNext = frame.stage > 0 && frame.stage < unit->path.size() &&
                  handlerAt(task, *unit, frame.stage) == me &&
                  isFrom(handlerAt(task, *unit, frame.stage - 1)) &&
                  frame.piece == unit->nextPartial[frame.stage];
    uint64_t width =
        unit->isTurned ? bytesOf(task.collective.dtype) : accumulator;
    return isNext ? std::optional(elements * width) : std::nullopt;
  }
  bool isNext = frame.piece == unit->nextResult;
  if (kind == CollectiveKind::AllReduce)
    isNext &=
        frame.stage > 0 && frame.stage < unit->resultPath.size() &&
        handlerOf(task, unit->resultPath[frame.stage], frame.unit) == me &&
        isFrom(handlerOf(task, unit->resultPath[frame.stage - 1], frame.unit));
  else
    isNext &= int(frame.unit) == me &&
              isFrom(handlerOf(task, unit->resultPath.front(), frame.unit));
  return isNext ? std::optional(elements * bytesOf(task.collective.dtype))
                : std::nullopt;
}

Result<std::byte *> NetCommunicator::placeOfPiece(int peer,
                                                  const Frame &frame) {
  // After an abort what still comes is read and forgotten.
  if (!hasToldAbort) {
    std::shared_ptr<WireTask> task = taskOf(frame.group, frame.operation);
    if (!task) {
      // Once this rank has started it, the other ranks of this machine may have
      // sent their parts before this thread has heard of it.
      takePosted();
      task = taskOf(frame.group, frame.operation);
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
  buffers[peer] = hasToldAbort
                      ? nullptr
                      : bufferOf(*taskOf(frame.group, frame.operation), frame);
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

void NetCommunicator::addPiece(int peer, const Frame &frame) {
  std::shared_ptr<WireTask> task = taskOf(frame.group, frame.operation);
  if (!task)
    return; // the job is over
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

void NetCommunicator::addCopy(WireTask &task, const Frame &frame,
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
    return;
  }
  auto &[border, offsets] = task.borders[incoming.member];
  copyTo([&](size_t t) { return border.data() + offsets[t].input; });
  if (--task.bordersLeft == 0 && task.hasSent)
    addBorders(task);
}

} // namespace polyrank::runtime::net
