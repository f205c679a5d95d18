// Verifies the commands of a plan against the buffers that they name.

#include "runtime/plan/Verifier.h"

#include "runtime/plan/Enums.h"

#include <algorithm>

namespace polyrank::runtime {

using namespace plan;

// The buffers of collectives and copies must have exactly the bytes that they
// move.
bool PlanVerifier::verifySize(const std::string &what, const BufferRef &buffer,
                              Checked bytes) {
  if (!bytes.is(buffer.size()))
    return fail("{}: moves {} bytes, its buffer has {}", what, bytes.value(),
                buffer.size());
  return true;
}

// Returns true if low < distance + i * drift < high for an i in [0, count).
static bool meets(__int128 distance, __int128 drift, uint64_t count,
                  __int128 low, __int128 high) {
  if (drift < 0) {
    std::swap(low, high);
    distance = -distance, drift = -drift, low = -low, high = -high;
  }
  if (drift == 0)
    return low < distance && distance < high;
  __int128 first = distance > low ? 0 : (low - distance) / drift + 1;
  return first < count && distance + first * drift < high;
}

// Returns true if two buffers share a byte in some microbatch and iteration on
// some rank. In microbatch m and iteration i, a's start minus b's is distance +
// m * drift + i * each, and they overlap if that lies in (-a.size, b.size). A
// buffer that is a block counts as all of its blocks, and one whose slots
// differ from the other's as all of its slots.
bool PlanVerifier::overlap(const BufferRef &a, const BufferRef &b) const {
  if (a.region() != b.region() || a.size() == 0 || b.size() == 0)
    return false;
  auto reach = [&](const BufferRef &buffer) {
    return __int128(buffer.step()) * (blocksOf(buffer) - 1) + buffer.size();
  };
  if (a.slots() != b.slots() || (a.slots() && a.stride() != b.stride()))
    return beginOf(a) < endOf(b) && beginOf(b) < endOf(a);
  __int128 distance = __int128(a.offset()) - b.offset();
  __int128 drift = __int128(a.stride()) - b.stride();
  __int128 each = __int128(a.each()) - b.each();
  __int128 low = -reach(a), high = reach(b);
  // Loops over the smaller of the two counts.
  uint64_t count = drift == 0 ? 1 : plan.microbatches(),
           others = each == 0 ? 1 : iterations();
  if (count > others) {
    std::swap(drift, each);
    std::swap(count, others);
  }
  for (uint64_t i = 0; i < count; ++i)
    if (meets(distance + i * drift, each, others, low, high))
      return true;
  return false;
}

bool PlanVerifier::verifyApart(const std::string &what, const BufferRef &a,
                               const BufferRef &b) {
  if (overlap(a, b))
    return fail("{}: {} bytes at offset {} and {} bytes at offset {} overlap",
                what, a.size(), a.offset(), b.size(), b.offset());
  return true;
}

bool PlanVerifier::verifyLaunch(const std::string &what, const Launch &launch) {
  if (!verifyLaunchBody(what, launch))
    return false;
  for (const auto *buffers : {launch.inputs(), launch.outputs()}) {
    if (!buffers)
      continue;
    if (!verifyAligned(what, buffers))
      return false;
    if (buffers->size() > maxOperands)
      return fail("{}: {} operands", what, buffers->size());
    for (const BufferRef *buffer : *buffers)
      if (!verifyBuffer(
              fmt::format("{}, {} {}", what,
                          buffers == launch.inputs() ? "input" : "output",
                          buffer - buffers->Get(0)),
              *buffer, 1))
        return false;
  }
  const CudaLaunch *cuda = launch.body_as_CudaLaunch();
  return !cuda || verifyCudaLaunch(what, launch, *cuda);
}

namespace {
/// The place of a buffer on all ranks.
struct Location {
  Region region;
  uint64_t offset, stride, step;
  uint32_t slots, axes;
  bool operator==(const Location &) const = default;
};
} // namespace

/// Returns true if the kind's rule allows input and output to alias as they do.
static bool mayAlias(const Collective &collective, const Transfer &transfer,
                     int64_t groupSize) {
  uint32_t group = collective.group() + 1;
  auto locationOf = [&](const BufferRef &buffer) {
    Location at{buffer.region(), buffer.offset(), buffer.stride(),
                buffer.step(),   buffer.slots(),  buffer.axes()};
    // The only rank of a group has block 0, so `step` has no effect.
    if (groupSize == 1 && at.axes == group && at.step == buffer.size())
      at.axes = at.step = 0;
    return at;
  };
  const BufferRef &input = *transfer.input(), &output = *transfer.output();
  auto blockOf = [&](Location whole) -> std::optional<Location> {
    if (whole.axes)
      return std::nullopt;
    if (groupSize > 1) {
      whole.axes = group;
      whole.step = std::min(input.size(), output.size());
    }
    return whole;
  };
  return isInPlace(inPlaceOf(kindOf(collective.kind()), transfer.outer()),
                   locationOf(input), locationOf(output), blockOf);
}

bool PlanVerifier::verifyTransfer(const std::string &what,
                                  const Collective &collective,
                                  const Transfer &transfer, int64_t groupSize) {
  uint64_t element = elementSize(collective.dtype());
  for (const BufferRef *buffer : {transfer.input(), transfer.output()}) {
    if (!verifyBuffer(what, *buffer, element))
      return false;
    if (buffer->region() != Region::Shared)
      return fail(
          "{}: its buffer at offset {} is private, peers cannot reach it", what,
          buffer->offset());
  }
  auto kind = kindOf(collective.kind());
  TransferShape shape = shapeOf(transfer);
  if (std::string fault = findFault(kind, shape, groupSize, int64_t(element));
      !fault.empty())
    return fail("{}: {}", what, fault);
  TransferElements elements = elementsOf(kind, shape, groupSize);
  if (!verifySize(what + ", input", *transfer.input(),
                  Checked(element * elements.input)) ||
      !verifySize(what + ", output", *transfer.output(),
                  Checked(element * elements.output)))
    return false;
  return mayAlias(collective, transfer, groupSize) ||
         verifyApart(what, *transfer.input(), *transfer.output());
}

bool PlanVerifier::verifyCollective(const std::string &what,
                                    const Collective &collective) {
  if (collective.kind() < plan::CollectiveKind::MIN ||
      collective.kind() > plan::CollectiveKind::MAX)
    return fail("{}: kind {} does not exist", what, int(collective.kind()));
  if (!verifyType(what, collective.dtype()))
    return false;
  auto kind = kindOf(collective.kind());
  if (std::string fault = findFault(kind, reductionOf(collective.reduction()));
      !fault.empty())
    return fail("{}: {}", what, fault);
  if (collective.group() >= program->groups()->size())
    return fail("{}: group {} of {}", what, collective.group(),
                program->groups()->size());
  int64_t size =
      Mesh::groupSize(program->groups()->Get(collective.group())->axes());
  if (!verifyReason(what, collective.why()))
    return false;
  std::vector<int32_t> sources;
  if (collective.permutation())
    sources.assign(collective.permutation()->begin(),
                   collective.permutation()->end());
  if (std::string fault = findFault(kind, sources, size); !fault.empty())
    return fail("{}: {}", what, fault);
  std::sort(sources.begin(), sources.end());
  if (auto twice = std::adjacent_find(sources.begin(), sources.end());
      twice != sources.end())
    return fail("{}: the permutation takes from rank {} twice", what, *twice);
  for (const Transfer *transfer : *collective.transfers())
    if (!verifyTransfer(what, collective, *transfer, size))
      return false;
  return true;
}

bool PlanVerifier::verifyCopy(const std::string &what, const Copy &copy) {
  if (copy.element() != 1 && copy.element() != 2 && copy.element() != 4 &&
      copy.element() != 8)
    return fail("{}: elements of {} bytes", what, copy.element());
  if (copy.outer() < 1 || copy.count() < 1 || copy.inner() < 1)
    return fail("{}: extents {} x {} x {}", what, copy.outer(), copy.count(),
                copy.inner());
  if (!verifyBuffer(what + ", input", *copy.input(), copy.element()) ||
      !verifyBuffer(what + ", output", *copy.output(), copy.element()))
    return false;
  const AxisRefs *axes = copy.axes() ? copy.axes()->axes() : nullptr;
  if (!verifyAxes(what, axes))
    return false;
  if (Mesh::groupSize(axes) != copy.count())
    return fail("{}: takes one of {} parts by axes with {} indices", what,
                copy.count(), Mesh::groupSize(axes));
  Checked out = Checked(copy.element()) * Checked::of(copy.outer()) *
                Checked::of(copy.inner());
  return verifySize(what + ", input", *copy.input(),
                    out * Checked::of(copy.count())) &&
         verifySize(what + ", output", *copy.output(), out) &&
         verifyApart(what, *copy.input(), *copy.output());
}

bool PlanVerifier::verifyReason(const std::string &what, uint32_t why) {
  uint64_t reasons = program->reasons() ? program->reasons()->size() : 0;
  return why < reasons || why == 0 ||
         fail("{}: reason {} of {}", what, why, reasons);
}

template <typename End>
bool PlanVerifier::verifyChannelEnd(const std::string &what, const End &end,
                                    const BufferRef &value, uint32_t me) {
  if (end.group() >= program->groups()->size())
    return fail("{}: group {} of {}", what, end.group(),
                program->groups()->size());
  const AxisRefs *axes = program->groups()->Get(end.group())->axes();
  int64_t size = Mesh::groupSize(axes);
  if (end.from() >= size || end.to() >= size || end.from() == end.to())
    return fail("{}: goes from index {} to {} of a group of {}", what,
                end.from(), end.to(), size);
  // All ranks of the program run the command, so all must have the index that
  // it states.
  Mesh mesh(plan);
  for (const AxisRef *ref : *axes)
    if (ref->size() > 1 &&
        (!program->at() ||
         std::none_of(
             program->at()->begin(), program->at()->end(),
             [&](const Place *place) { return place->axis() == ref->axis(); })))
      return fail("{}: its group is over axis '{}', and ranks with any "
                  "coordinate there run the program",
                  what, mesh.name(ref->axis()));
  int64_t index = mesh.linearIndex(firstRankOf(mesh, program->at()), axes);
  if (index != me)
    return fail("{}: is of the rank with index {} over {}, and those that run "
                "it have {}",
                what, me, mesh.describe(axes), index);
  if (end.slots() < 1 || end.slots() > maxSlots)
    return fail("{}: {} slots; 1 to {} are possible", what, end.slots(),
                maxSlots);
  if (end.bytes() != value.size())
    return fail("{}: values of {} bytes, and its buffer has {}", what,
                end.bytes(), value.size());
  return verifyReason(what, end.why()) && verifyBuffer(what, value, 1);
}

/// Verifies the current loop (`loop`).
bool PlanVerifier::verifyLoop(const std::string &what) {
  if (loop->count() < 1)
    return fail("{}: runs its commands 0 times; 1 is the least", what);
  if (loop->commands()->size() == 0)
    return fail("{}: a loop without commands", what);
  for (uint32_t number = 0; number < loop->commands()->size(); ++number) {
    const Command &command = *loop->commands()->Get(number);
    std::string inside = fmt::format("{}, command {} of the loop ({})", what,
                                     number, describe(command));
    CommandBody body = command.body_type();
    if (body != CommandBody::Launch && body != CommandBody::Call &&
        body != CommandBody::Copy)
      return fail("{}: in a loop only launches, library calls and copies are "
                  "possible",
                  inside);
    if (!verifyPhase(inside, command) || !verifyCommand(inside, command) ||
        !verifyQueue(inside, command))
      return false;
  }
  return true;
}

bool PlanVerifier::verifyCommand(const std::string &what,
                                 const Command &command) {
  switch (command.body_type()) {
  case CommandBody::Launch:
    return verifyLaunch(what, *command.body_as_Launch());
  case CommandBody::Call:
    return verifyCall(what, *command.body_as_Call());
  case CommandBody::Collective:
    return verifyCollective(what, *command.body_as_Collective());
  case CommandBody::Copy:
    return verifyCopy(what, *command.body_as_Copy());
  case CommandBody::Send: {
    const Send &send = *command.body_as_Send();
    return verifyChannelEnd(what, send, *send.input(), send.from());
  }
  case CommandBody::Receive: {
    const Receive &receive = *command.body_as_Receive();
    return verifyChannelEnd(what, receive, *receive.output(), receive.to());
  }
  case CommandBody::Loop:
    return verifyLoop(what);
  case CommandBody::Wait: // verified by verifyRequest
    return true;
  case CommandBody::NONE:
    break;
  }
  return fail("{}: command type {} does not exist", what,
              int(command.body_type()));
}

} // namespace polyrank::runtime
