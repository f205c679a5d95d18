// Verifies a plan: structure first (flatbuffers' own verifier), then meaning.
// Commands are checked in VerifyCommands.cpp.

#include "runtime/plan/VerifyPlan.h"

#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/ProgramChannels.h"
#include "runtime/plan/Verifier.h"
#include "support/BatchDim.h"
#include "support/Fingerprint.h"
#include "support/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace polyrank::runtime {

using namespace plan;

bool PlanVerifier::verifyAxes(const std::string &what, const AxisRefs *refs,
                              std::vector<AxisRef> &used) {
  if (!refs)
    return true;
  if (!verifyAligned(what, refs))
    return false;
  for (const AxisRef *ref : *refs) {
    // Otherwise there could be any number of refs of size 1.
    if (used.size() >= maxAxes)
      return fail("{}: names more than {} sub-axes", what, maxAxes);
    if (ref->axis() < 0 || uint64_t(ref->axis()) >= plan.mesh()->size())
      return fail("{}: axis number {} of a mesh of {} axes", what, ref->axis(),
                  plan.mesh()->size());
    int64_t size = plan.mesh()->Get(ref->axis())->size();
    Checked upTo = Checked::of(ref->pre()) * Checked::of(ref->size());
    if (ref->pre() < 1 || ref->size() < 1 || !upTo.fits(size) ||
        size % upTo.value() != 0)
      return fail("{}: sub-axis ({}){} of axis '{}', whose size is {}", what,
                  ref->pre(), ref->size(),
                  plan.mesh()->Get(ref->axis())->name()->str(), size);
    for (const AxisRef &other : used)
      if (other.axis() == ref->axis() &&
          other.pre() < ref->pre() * ref->size() &&
          ref->pre() < other.pre() * other.size())
        return fail("{}: uses axis '{}' twice: ({}){} and ({}){}", what,
                    plan.mesh()->Get(ref->axis())->name()->str(), other.pre(),
                    other.size(), ref->pre(), ref->size());
    // A later ref of the same axis must be aligned with this one's digits.
    for (const AxisRef &other : used)
      if (other.axis() == ref->axis() &&
          other.pre() % (ref->pre() * ref->size()) != 0 &&
          ref->pre() % (other.pre() * other.size()) != 0)
        return fail("{}: sub-axes ({}){} and ({}){} of axis '{}' do not nest",
                    what, other.pre(), other.size(), ref->pre(), ref->size(),
                    plan.mesh()->Get(ref->axis())->name()->str());
    used.push_back(*ref);
  }
  return true;
}

bool PlanVerifier::verifyAxes(const std::string &what, const AxisRefs *refs) {
  std::vector<AxisRef> used;
  return verifyAxes(what, refs, used);
}

int64_t PlanVerifier::blocksOf(const BufferRef &buffer) const {
  return buffer.axes() == 0
             ? 1
             : Mesh::groupSize(
                   program->groups()->Get(buffer.axes() - 1)->axes());
}

bool PlanVerifier::verifyBuffer(const std::string &what,
                                const BufferRef &buffer, uint64_t alignment) {
  if (buffer.region() != Region::Shared && buffer.region() != Region::Private)
    return fail("{}: region {} does not exist", what, int(buffer.region()));
  bool shared = buffer.region() == Region::Shared;
  uint64_t limit = shared ? program->shared_size() : program->private_size();
  if (buffer.axes() > program->groups()->size())
    return fail("{}: a block over group {} of {}", what, buffer.axes() - 1,
                program->groups()->size());
  if (buffer.axes() == 0 && buffer.step() != 0)
    return fail("{}: a step of {} over no axes", what, buffer.step());
  if (buffer.slots() != 0 && buffer.stride() == 0)
    return fail("{}: {} slots without a stride", what, buffer.slots());
  uint32_t places = placesOf(buffer, plan.microbatches());
  Checked end = Checked(buffer.offset()) +
                Checked(buffer.stride()) * Checked(places - 1) +
                Checked(buffer.step()) * Checked::of(blocksOf(buffer) - 1) +
                Checked(buffer.size());
  if (!end.fits(limit))
    return fail("{}: {} bytes at offset {} with stride {} over {} {} "
                "and step {} over {} blocks end at {}, behind the {} region's "
                "{} bytes",
                what, buffer.size(), buffer.offset(), buffer.stride(), places,
                buffer.slots() ? "slots" : "microbatches", buffer.step(),
                blocksOf(buffer), end.value(), shared ? "shared" : "private",
                limit);
  if (!loop && buffer.each() != 0)
    return fail("{}: starts {} bytes further in each iteration, and is in no "
                "loop",
                what, buffer.each());
  // The offset in the last iteration may be below 0 or above 2^64.
  __int128 moved = __int128(buffer.each()) * (iterations() - 1);
  if (__int128(buffer.offset()) + moved < 0)
    return fail("{}: offset {} and {} bytes in each of {} iterations: the last "
                "one starts before the {} region",
                what, buffer.offset(), buffer.each(), iterations(),
                shared ? "shared" : "private");
  if (__int128(end.value()) + moved > limit)
    return fail(
        "{}: {} bytes that end at {} in the first of {} iterations, and "
        "{} bytes further in each: the last one ends behind the {} "
        "region's {} bytes",
        what, buffer.size(), end.value(), iterations(), buffer.each(),
        shared ? "shared" : "private", limit);
  if (buffer.offset() % alignment != 0 || buffer.stride() % alignment != 0 ||
      buffer.step() % alignment != 0)
    return fail("{}: offset {}, stride {} and step {} are not multiples of its "
                "alignment {}",
                what, buffer.offset(), buffer.stride(), buffer.step(),
                alignment);
  if (buffer.each() % int64_t(alignment) != 0)
    return fail("{}: {} bytes further in each iteration are no multiple of its "
                "alignment {}",
                what, buffer.each(), alignment);
  return true;
}

bool PlanVerifier::verifyType(const std::string &what, ElementType type) {
  if (type < ElementType::MIN || type > ElementType::MAX)
    return fail("{}: dtype {} does not exist", what, int(type));
  return true;
}

// The buffer must have exactly the block's bytes.
bool PlanVerifier::verifyShard(const std::string &what, ElementType type,
                               const Dims *dims, const BufferRef &buffer) {
  if (!verifyType(what, type) || !verifyBuffer(what, buffer, elementSize(type)))
    return false;
  if (buffer.stride() != 0)
    return fail("{}: its buffer holds all microbatches and has a stride of {} "
                "instead of 0",
                what, buffer.stride());
  Checked bytes = Checked(elementSize(type));
  std::vector<AxisRef> used;
  if (dims) {
    if (dims->size() > maxRank)
      return fail("{}: has {} dims, at most {} are possible", what,
                  dims->size(), maxRank);
    for (const Dim *dim : *dims) {
      if (dim->size() < 0 || dim->padded() < dim->size() ||
          uint64_t(dim->padded()) > maxElements)
        return fail("{}: a dim of {} with padded extent {}", what, dim->size(),
                    dim->padded());
      if (!verifyAxes(what, dim->axes(), used))
        return false;
      int64_t blocks = Mesh::groupSize(dim->axes());
      if (dim->padded() % blocks != 0)
        return fail("{}: padded extent {} is no multiple of its {} blocks",
                    what, dim->padded(), blocks);
      bytes = bytes * Checked::of(dim->padded() / blocks);
    }
  }
  if (!bytes.is(buffer.size()))
    return fail("{}: a shard needs {} bytes, its buffer has {}", what,
                bytes.value(), buffer.size());
  return true;
}

bool PlanVerifier::verifyMicrobatched(const std::string &what, const Dims *dims,
                                      int64_t batchDim) {
  if (!dims || dims->size() < 2)
    return fail("{}: needs dims for microbatch and batch, has {}", what,
                dims ? dims->size() : 0);
  const Dim *first = dims->Get(0);
  if (uint64_t(first->size()) != plan.microbatches() ||
      first->padded() != first->size() || Mesh::groupSize(first->axes()) != 1)
    return fail("{}: dim 0 is the microbatch: it must have the plan's {} "
                "elements, unsplit, and "
                "has {} (padded {})",
                what, plan.microbatches(), first->size(), first->padded());
  Checked samples =
      Checked::of(first->size()) * Checked::of(dims->Get(1)->size());
  if (batchDim == noBatch) {
    if (dims->Get(1)->size() != 1)
      return fail("{}: has no batch, but {} rows", what, dims->Get(1)->size());
    return true;
  }
  if (batchDim < 0 || batchDim + 1 >= int64_t(dims->size()))
    return fail("{}: has the samples in dim {} of {}", what, batchDim,
                dims->size() - 1);
  if (!samples.is(plan.samples_per_step()))
    return fail("{}: holds {} samples a step, the plan has {}", what,
                samples.value(), plan.samples_per_step());
  return true;
}

bool PlanVerifier::verifyStored() {
  if (!plan.stored())
    return true;
  for (const StoredTensor *stored : *plan.stored()) {
    std::string what = "stored tensor '" + stored->name()->str() + "'";
    if (!verifyType(what, stored->dtype()))
      return false;
    Checked elements = 1;
    if (!verifyAligned(what, stored->shape()))
      return false;
    if (stored->shape()) {
      if (stored->shape()->size() > maxRank)
        return fail("{}: has {} dims, at most {} are possible", what,
                    stored->shape()->size(), maxRank);
      for (int64_t size : *stored->shape())
        elements = elements * Checked::of(size);
    }
    if (!elements.fits(maxElements))
      return fail("{}: its shape has more than {} elements", what, maxElements);
    if (stored->transposed() &&
        (!stored->shape() || stored->shape()->size() != 2))
      return fail("{}: is transposed, but no matrix", what);
    if (stored->complex()) {
      if (stored->dtype() != ElementType::F32 &&
          stored->dtype() != ElementType::F64)
        return fail("{}: has complex numbers of parts of {}", what,
                    EnumNameElementType(stored->dtype()));
      if (!stored->shape() || stored->shape()->size() == 0 ||
          stored->shape()->Get(stored->shape()->size() - 1) != 2)
        return fail("{}: has complex numbers, and no last dim of 2 for their "
                    "parts",
                    what);
    }
    if (stored->complex() && stored->transposed())
      return fail("{}: has complex numbers and is transposed", what);
    if (stored->data() && stored->data()->size() !=
                              elements.value() * elementSize(stored->dtype()))
      return fail("{}: its shape needs {} bytes, its data has {}", what,
                  elements.value() * elementSize(stored->dtype()),
                  stored->data()->size());
    if (stored->source()) {
      uint64_t bytes = elements.value() * elementSize(stored->dtype());
      if (stored->source()->length() != bytes)
        return fail("{}: its shape needs {} bytes, its span of '{}' has {}",
                    what, bytes, stored->source()->path()->str(),
                    stored->source()->length());
      if (!(Checked(stored->source()->offset()) + Checked(bytes))
               .fits(INT64_MAX))
        return fail("{}: its span starts at {}", what,
                    stored->source()->offset());
      if (!verifyAligned(what, stored->source()->digests()))
        return false;
      if (const auto *digests = stored->source()->digests();
          digests && digests->size() != digestBlocksOf(bytes))
        return fail("{}: its {} bytes have {} digests instead of {}", what,
                    bytes, digests->size(), digestBlocksOf(bytes));
    }
  }
  return true;
}

bool PlanVerifier::verifyView(const std::string &what,
                              const Argument &argument) {
  const View *view = argument.view();
  uint64_t count = plan.stored() ? plan.stored()->size() : 0;
  if (view->stored() >= count)
    return fail("{}: is a view of stored tensor {} of {}", what, view->stored(),
                count);
  const StoredTensor *stored = plan.stored()->Get(view->stored());
  uint64_t elements = 1;
  if (stored->shape())
    for (int64_t size : *stored->shape())
      elements *= size;
  uint64_t rank = argument.dims() ? argument.dims()->size() : 0;
  uint64_t strides = view->strides() ? view->strides()->size() : 0;
  if (strides != rank)
    return fail("{}: has {} dims and its view {} strides", what, rank, strides);
  if (!verifyAligned(what, view->strides()))
    return false;
  __int128 lowest = view->base(), highest = view->base();
  for (uint64_t d = 0; d < rank; ++d) {
    if (argument.dims()->Get(d)->size() == 0)
      return true; // The view reads no element.
    __int128 reach =
        __int128(argument.dims()->Get(d)->size() - 1) * view->strides()->Get(d);
    (reach < 0 ? lowest : highest) += reach;
  }
  if (lowest < 0 || highest >= elements)
    return fail("{}: its view reaches from element {} to {} of stored tensor "
                "'{}', which has {}",
                what, int64_t(lowest), int64_t(highest), stored->name()->str(),
                elements);
  return true;
}

static bool isRate(double rate) { return std::isfinite(rate) && rate >= 0; }

bool PlanVerifier::verifyArgument(const Argument &argument) {
  std::string what = "argument '" + argument.name()->str() + "'";
  if (!verifyShard(what, argument.dtype(), argument.dims(), *argument.buffer()))
    return false;
  if (argument.view() && !verifyView(what, argument))
    return false;
  bool integer = argument.dtype() == ElementType::I32 ||
                 argument.dtype() == ElementType::I64;
  if (argument.index_limit() < 0 || (argument.index_limit() > 0 && !integer))
    return fail("{}: index limit {} on dtype {}", what, argument.index_limit(),
                EnumNameElementType(argument.dtype()));
  switch (argument.role()) {
  case Role::Parameter:
    if (!argument.view())
      return fail("{}: a parameter without a stored tensor", what);
    return true;
  case Role::State:
    return true;
  case Role::Input:
  case Role::Labels:
    return verifyMicrobatched(what, argument.dims(), argument.batch_dim());
  case Role::Seed:
    if (argument.dtype() != ElementType::I64 || argument.buffer()->size() != 8)
      return fail("{}: the seed is one I64, not {} bytes of {}", what,
                  argument.buffer()->size(),
                  EnumNameElementType(argument.dtype()));
    return true;
  case Role::LearningRate:
    if (plan.mode() != Mode::Train)
      return fail("{}: a forward plan has no learning rate", what);
    if (argument.dtype() != ElementType::F64 || argument.buffer()->size() != 8)
      return fail("{}: a learning rate is one F64, not {} bytes of {}", what,
                  argument.buffer()->size(),
                  EnumNameElementType(argument.dtype()));
    if (!isRate(argument.rate()))
      return fail("{}: a learning rate of {}", what, argument.rate());
    return true;
  }
  return fail("{}: role {} does not exist", what, int(argument.role()));
}

bool PlanVerifier::verifyData() {
  // Groups are verified first, since buffers refer to them.
  if (program->groups()->size() > maxGroups)
    return fail("has {} groups of ranks; at most {} are possible",
                program->groups()->size(), maxGroups);
  for (const AxisList *group : *program->groups())
    if (!verifyAxes("group", group->axes()))
      return false;
  std::set<std::string> names;
  for (const Argument *argument : *program->arguments()) {
    if (!verifyArgument(*argument))
      return false;
    if (!names.insert(argument->name()->str()).second)
      return fail("argument '{}' occurs twice", argument->name()->str());
  }
  for (const Output *output : *program->outputs()) {
    std::string what = "output '" + output->name()->str() + "'";
    if (!verifyShard(what, output->dtype(), output->dims(), *output->buffer()))
      return false;
    if (output->kind() == OutputKind::Metric) {
      if (output->buffer()->size() != elementSize(output->dtype()))
        return fail("{}: a metric is a scalar, its buffer has {} bytes", what,
                    output->buffer()->size());
    } else if (output->kind() == OutputKind::Tensor) {
      if (!verifyMicrobatched(what, output->dims(), output->batch_dim()))
        return false;
    } else {
      return fail("{}: kind {} does not exist", what, int(output->kind()));
    }
  }
  if (program->constants())
    for (const Constant *constant : *program->constants()) {
      const BufferRef &buffer = *constant->buffer();
      if (!verifyBuffer("constant", buffer, 1))
        return false;
      if (buffer.stride() != 0 || buffer.size() != constant->data()->size())
        return fail("constant: {} bytes for a buffer of {} with stride {}",
                    constant->data()->size(), buffer.size(), buffer.stride());
    }
  if (program->axis_indices())
    for (const AxisIndex *index : *program->axis_indices()) {
      if (!verifyBuffer("axis index", *index->buffer(), 8) ||
          !verifyAxes("axis index", index->axes()->axes()))
        return false;
      if (index->buffer()->size() != 8 || index->buffer()->stride() != 0)
        return fail("axis index: is 8 bytes with stride 0, its buffer has {} "
                    "with stride {}",
                    index->buffer()->size(), index->buffer()->stride());
    }
  return true;
}

bool PlanVerifier::verifyHeader() {
  if (plan.version() != planSchemaVersion)
    return fail("schema version {}, this program reads {}", plan.version(),
                planSchemaVersion);
  if (plan.mode() < Mode::MIN || plan.mode() > Mode::MAX)
    return fail("mode {} does not exist", int(plan.mode()));
  if (plan.microbatches() < 1 || plan.microbatches() > maxMicrobatches)
    return fail("{} microbatches; 1 to {} are possible", plan.microbatches(),
                maxMicrobatches);
  if (plan.threads() < 1 || plan.threads() > maxThreads)
    return fail("{} threads; 1 to {} are possible", plan.threads(), maxThreads);
  if (plan.denormals() < Denormals::MIN || plan.denormals() > Denormals::MAX)
    return fail("denormals {} do not exist", int(plan.denormals()));
  if (plan.mesh()->size() > maxAxes)
    return fail("the mesh has {} axes; at most {} are possible",
                plan.mesh()->size(), maxAxes);
  std::set<std::string> names;
  Checked ranks = 1;
  for (const Axis *axis : *plan.mesh()) {
    if (axis->size() < 1 || axis->name()->size() == 0)
      return fail("mesh axis '{}' of size {}", axis->name()->str(),
                  axis->size());
    if (!names.insert(axis->name()->str()).second)
      return fail("mesh axis '{}' occurs twice", axis->name()->str());
    ranks = ranks * Checked::of(axis->size());
  }
  if (!ranks.fits(maxRanks))
    return fail("the mesh has more than {} ranks", maxRanks);
  if (!isRate(plan.learning_rate()))
    return fail("a learning rate of {}", plan.learning_rate());
  if (plan.lr_schedule())
    if (auto schedule =
            LearningRateSchedule::parse(plan.lr_schedule()->string_view());
        !schedule)
      return fail("the learning rate's schedule '{}': {}",
                  plan.lr_schedule()->str(), schedule.error().message);
  return true;
}

bool PlanVerifier::verifyProgram() {
  if (!(Checked(program->shared_size()) + Checked(program->private_size()))
           .fits(maxArena))
    return fail("an arena of {} + {} bytes", program->shared_size(),
                program->private_size());
  if (program->communication_queues() > maxQueues)
    return fail("has {} communication queues; at most {} are possible",
                program->communication_queues(), maxQueues);
  if (!verifyTarget() || !verifyData())
    return false;
  for (const Segment *segment : *program->segments())
    if (!verifySegment(*segment))
      return false;
  for (const Action *action : *program->schedule())
    if (action->segment() >= program->segments()->size() ||
        action->microbatch() >= plan.microbatches())
      return fail("the schedule runs segment {} of {} for microbatch {} of {}",
                  action->segment(), program->segments()->size(),
                  action->microbatch(), plan.microbatches());
  std::optional<uint64_t> channels = channelBytesOf(*program);
  if (!channels || *channels > maxArena)
    return fail("the values that it sends take {} bytes of channels; {} are "
                "possible",
                channels ? std::to_string(*channels) : "more than 2^64",
                maxArena);
  return true;
}

bool PlanVerifier::verify() {
  if (!verifyHeader() || !verifyImages() || !verifyStored() || !verifyPlaces())
    return false;
  for (const Program *each : *plan.programs()) {
    program = each;
    if (verifyProgram())
      continue;
    if (plan.programs()->size() > 1)
      message =
          "at " + describePlaces(Mesh(plan), program->at()) + ": " + message;
    return false;
  }
  return verifyTimes() && verifySharedNames() && verifyTransfers() &&
         verifyQueues() && verifyEnd();
}

Result<const Plan *> verifyPlan(std::span<const uint8_t> flatbuffer,
                                std::span<const PlanTarget> targets) {
  constexpr flatbuffers::uoffset_t maxDepth = 64, maxTables = 1u << 26;
  if (flatbuffer.size() < 16 ||
      flatbuffer.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return Error{"its contents have " + std::to_string(flatbuffer.size()) +
                 " bytes"};
  flatbuffers::Verifier structure(flatbuffer.data(), flatbuffer.size(),
                                  maxDepth, maxTables);
  if (!VerifyPlanBuffer(structure))
    return Error{"its contents are not a plan (flatbuffer structure)"};
  const Plan *plan = GetPlan(flatbuffer.data());
  PlanVerifier verifier(*plan, targets);
  if (!verifier.verify())
    return Error{verifier.message};
  return plan;
}

namespace {
Result<LoadedPlan> verified(Result<PlanBytes> bytes, const std::string &path) {
  if (!bytes)
    return bytes.error();
  Result<const Plan *> plan = verifyPlan(bytes->payload());
  if (!plan)
    return Error{"plan '" + path + "' is refused: " + plan.error().message};
  return LoadedPlan{*std::move(bytes), *plan, path};
}
} // namespace

Result<LoadedPlan> loadPlan(const std::string &path) {
  return verified(readPlan(path), path);
}

Result<LoadedPlan> loadPlan(int descriptor, const std::string &path) {
  return verified(readPlan(descriptor, path), path);
}

} // namespace polyrank::runtime
