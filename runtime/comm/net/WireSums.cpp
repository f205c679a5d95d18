// Sums over several machines, in the order of the group.
//
// Pieces go along the stages: each adds its members' elements to what came, the
// last one has the sum, which then goes back along the machines. On each
// machine several members work on it, each on parts of its own.

#include "runtime/comm/Reduce.h"
#include "runtime/comm/net/FloatMode.h"
#include "runtime/comm/net/NetCommunicator.h"
#include "runtime/comm/net/WirePieces.h"
#include "support/ElementValues.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace polyrank::runtime::net {

/// Sums what is there for this rank's blocks, once all of it is.
void NetCommunicator::addBorders(WireTask &task) {
  FloatMode mode(task.floatMode);
  int me = task.group->me;
  WorkRow row;
  row.starts.push_back(0);
  for (const Transfer &transfer : task.transfers)
    row.starts.push_back(row.starts.back() + transfer.outer * transfer.inner);
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

void NetCommunicator::addPartial(const std::shared_ptr<WireTask> &task,
                                 const Frame &frame, const Piece &piece) {
  Unit &unit = *unitOf(*task, frame);
  ++unit.nextPartial[frame.stage];
  sumPiece(task, unit, frame.stage, frame.piece, piece.bytes.data());
}

void NetCommunicator::sumPiece(const std::shared_ptr<WireTask> &task,
                               const Unit &unit, size_t place, uint32_t piece,
                               const std::byte *before) {
  FloatMode mode(task->floatMode);
  const Collective &collective = task->collective;
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  int64_t element = bytesOf(collective.dtype),
          accumulator = accumulatorBytes(collective.dtype),
          size = pieceBytes / accumulator, from = unit.begin + piece * size,
          to = std::min(unit.end, from + size);
  bool isLast = place + 1 == unit.path.size();
  int members = task->group->members(), owner = static_cast<int>(unit.number);
  // What came are the elements of the last member, or the sum before this
  // stage.
  const std::byte *elementsAfter = unit.isTurned ? before : nullptr;
  if (unit.isTurned)
    before = nullptr;
  bool isWhole = isLast || unit.isTurned; // and not left for another stage
  int64_t width = isWhole ? element : accumulator;
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
  for (int member : task->stages[unit.path[place]].members)
    places.push_back(placesOf(*task, member));
  std::vector<const std::byte *> sources(places.size() + bool(elementsAfter));
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
          if (!before && places.size() == 1 && width == element && !isLast &&
              count == to - from) {
            out = {{sources[0], size_t(count * element)}, nullptr};
            return;
          }
          if (elementsAfter)
            sources.back() = elementsAfter + offset * element;
          addElements(collective.dtype, collective.reduction,
                      before ? before + offset * accumulator : nullptr, sources,
                      count, into + offset * width, isWhole);
          at += count;
        }
      });
  if (isLast)
    return deliver(task, unit, piece, std::move(out), 0);
  int next = handlerAt(*task, unit, place + 1);
  sendPiece(task, task->group->ranks[next],
            frameOf(*task, FrameKind::Partial, unit.number, piece,
                    static_cast<uint16_t>(place + 1)),
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
    if (place + 1 == unit.resultPath.size())
      return;
    next = handlerOf(*task, unit.resultPath[place + 1], unit.number);
  } else if (!takers.empty()) {
    return;
  }
  sendPiece(task, task->group->ranks[next],
            frameOf(*task, FrameKind::Result, unit.number, piece,
                    static_cast<uint16_t>(place + 1)),
            std::move(result));
}

void NetCommunicator::addResult(const std::shared_ptr<WireTask> &task,
                                const Frame &frame, const Piece &piece) {
  Unit &unit = *unitOf(*task, frame);
  ++unit.nextResult;
  deliver(task, unit, frame.piece, piece, frame.stage);
}

} // namespace polyrank::runtime::net
