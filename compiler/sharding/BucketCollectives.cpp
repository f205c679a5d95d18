// Merges reductions of gradients, and gathers of parameters, into buckets.
//
// The backward makes gradients ready in the reverse order in which the forward
// uses their parameters; buckets are filled in that order. Only reductions
// whose results the backward does not read are merged: nothing but the update
// waits for a bucket. Li et al., PyTorch Distributed (2020), 3.2. The first
// bucket is small, so that the link starts early. Only the step's end waits for
// gathers of new parameters. Parameters that are gathered where they are used
// (ZeRO stage 3) are available before the first op of their phase: their bucket
// stands where its first member is needed. Which members share a bucket follows
// from sizes that the user gives, or from a clock (BucketChoice.h).

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/FillBuckets.h"
#include "compiler/sharding/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Reason.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using sharding::BucketMember;

namespace polyrank::sharding {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {
class Bucketing {
public:
  /// The machine says how long everything takes, if a clock chooses; else it is
  /// null.
  Bucketing(func::FuncOp function, const sharding::BucketSizes &sizes,
            const cost::Machine *machine)
      : function(function), sizes(sizes), machine(machine), phases(function) {}

  void run();

private:
  void findReadByBackward(Block &block);
  bool isReduction(Operation &op) const;
  BlockArgument getStored(Value value);
  bool gathersStored(Operation &op);
  int64_t getReady(Value gradient) const;
  BucketMember describe(Operation *op, int depth);
  bool isCandidate(Operation &op);
  SmallVector<BucketMember> findCandidates(Block &block);
  void run(Block &block);
  void mergeAtLast(ArrayRef<BucketMember> members);
  void mergeAtFirst(ArrayRef<BucketMember> members);

  func::FuncOp function;
  sharding::BucketSizes sizes;
  const cost::Machine *machine;
  std::optional<sharding::BucketFiller> filler;
  graph::Phases phases;
  llvm::DenseSet<Value> readByBackward;
  llvm::DenseMap<Operation *, int64_t> position;
};
} // namespace

static Value getYielded(OpResult result) {
  auto region = dyn_cast<graph::MicrobatchesOp>(result.getOwner());
  if (!region)
    return {};
  return region.getBody().front().getTerminator()->getOperand(
      result.getResultNumber());
}

/// Finds the values of the block on which ops of the backward depend, starting
/// from the last op. Movements on a gradient's path to the update do not count:
/// no op of the backward waits for them.
void Bucketing::findReadByBackward(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    bool reads = false;
    op.walk([&](Operation *inner) {
      reads |= phases.getPhase(inner) == graph::Phase::Backward &&
               !isa<sharding::MovementOp>(inner);
    });
    reads |= llvm::any_of(op.getResults(), [&](Value result) {
      return readByBackward.contains(result);
    });
    if (!reads)
      continue;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == &block)
          readByBackward.insert(operand);
    });
  }
}

int64_t Bucketing::getReady(Value gradient) const {
  auto result = dyn_cast<OpResult>(gradient);
  if (!result)
    return -1;
  Value yielded = getYielded(result);
  Operation *op = yielded ? yielded.getDefiningOp() : result.getOwner();
  return op ? position.lookup(op) : -1;
}

bool Bucketing::isReduction(Operation &op) const {
  return isa<sharding::AllReduceOp, sharding::ReduceScatterOp>(op) &&
         llvm::all_of(
             op.getOperands(),
             [&](Value operand) { return phases.isCotangent(operand); }) &&
         llvm::none_of(op.getResults(), [&](Value result) {
           return readByBackward.contains(result);
         });
}

/// Returns true if the op gathers a new parameter: only the step's end reads
/// its results.
static bool gathersNewParameter(Operation &op) {
  return isa<sharding::AllGatherOp>(op) &&
         llvm::all_of(op.getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>() ||
                  (isa<graph::ReshapeOp>(user) &&
                   llvm::all_of(user->getUsers(), [](Operation *next) {
                     return next->hasTrait<OpTrait::IsTerminator>();
                   }));
         });
}

/// The parameter that the value is, directly or after `graph.after`.
BlockArgument Bucketing::getStored(Value value) {
  if (auto after = value.getDefiningOp<graph::AfterOp>())
    value = after.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &function.getBody().front() &&
                 graph::Boundary(function).getArgument<graph::ParameterAttr>(
                     argument.getArgNumber())
             ? argument
             : BlockArgument();
}

/// Returns true if the op gathers parameters as they are at the start of the
/// step.
bool Bucketing::gathersStored(Operation &op) {
  return isa<sharding::AllGatherOp>(op) &&
         llvm::all_of(op.getOperands(),
                      [&](Value operand) { return getStored(operand); });
}

BucketMember Bucketing::describe(Operation *op, int depth) {
  auto collective = cast<sharding::MovementOp>(op);
  Value first = op->getOperand(0);
  bool isStored = gathersStored(*op);
  if (isStored)
    depth = isa_and_present<graph::AfterOp>(first.getDefiningOp());
  BucketMember candidate{
      op,
      {collective.getMovementKind(), collective.getMovement().axes,
       sharding::getLayout(first).getPartialKind(),
       cast<RankedTensorType>(first.getType()).getElementType(), depth,
       isStored, graph::getStage(op)},
      isStored ? position.lookup(op) : 0,
      0};
  auto bytesOf = [](Value value) {
    return cost::getLocalBytes(cast<RankedTensorType>(value.getType()));
  };
  for (auto [operand, result] :
       llvm::zip_equal(op->getOperands(), op->getResults())) {
    if (!isStored)
      candidate.ready = std::max(candidate.ready, getReady(operand));
    candidate.bytes += std::max(bytesOf(operand), bytesOf(result));
  }
  return candidate;
}

bool Bucketing::isCandidate(Operation &op) {
  return gathersStored(op) || isReduction(op) || gathersNewParameter(op);
}

/// The candidates of a block, in the order in which their operands are there.
SmallVector<BucketMember> Bucketing::findCandidates(Block &block) {
  llvm::DenseMap<Value, int> depth;
  SmallVector<BucketMember> candidates;
  for (Operation &op : block) {
    int above = 0;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        above = std::max(above, depth.lookup(operand));
    });
    bool isOne = isCandidate(op);
    // Gathers of stored parameters never wait for another member of their
    // bucket.
    for (Value result : op.getResults())
      depth[result] = above + (isOne && !gathersStored(op));
    if (isOne)
      candidates.push_back(describe(&op, above));
  }
  llvm::sort(candidates, [&](const BucketMember &a, const BucketMember &b) {
    return std::pair(a.ready, position.lookup(a.op)) <
           std::pair(b.ready, position.lookup(b.op));
  });
  return candidates;
}

void Bucketing::run(Block &block) {
  SmallVector<BucketMember> candidates = findCandidates(block);
  sharding::Buckets buckets = filler ? filler->fill(block, candidates)
                                     : sharding::fillBySizes(candidates, sizes);
  bool merged = false;
  for (ArrayRef<BucketMember> members : buckets) {
    if (members.size() < 2)
      continue;
    if (members.front().key.isStored) {
      mergeAtFirst(members);
    } else {
      mergeAtLast(members);
      merged = true;
    }
  }
  // The bucket stands where its last member stood, and its users after it.
  if (merged)
    sortTopologically(&block);
}

void Bucketing::run() {
  SmallVector<Block *> blocks;
  int64_t next = 0;
  function.walk<WalkOrder::PostOrder>([&](Operation *op) {
    position[op] = next++;
    if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
      blocks.push_back(&region.getBody().front());
  });
  blocks.push_back(&function.getBody().front());
  for (Block *block : blocks)
    findReadByBackward(*block);
  if (machine)
    filler.emplace(function, *machine, position,
                   [&](Operation &op) { return isCandidate(op); });
  for (Block *block : blocks)
    run(*block);
}

/// Joins the reasons of all members, after a summary of the first few texts.
static sharding::ReasonAttr
joinReasons(MLIRContext *context, StringRef what,
            ArrayRef<sharding::ReasonAttr> members) {
  using sharding::ReasonAttr;
  auto join = [&](StringRef (ReasonAttr::*get)() const, size_t most) {
    llvm::SetVector<StringRef> texts;
    for (ReasonAttr member : members)
      if (StringRef text = (member.*get)(); !text.empty())
        texts.insert(text);
    size_t shown = std::min(most, texts.size());
    std::string joined =
        llvm::join(texts.getArrayRef().take_front(shown), "; ");
    if (shown < texts.size())
      joined += "; and " + std::to_string(texts.size() - shown) + " more";
    return joined;
  };
  constexpr size_t most = 4;
  sharding::Reason why;
  why.value = (what + " of " + Twine(members.size()) + " tensors").str();
  why.user = join(&ReasonAttr::getUser, most);
  why.from = join(&ReasonAttr::getFrom, most);
  why.to = join(&ReasonAttr::getTo, most);
  why.constraint = join(&ReasonAttr::getConstraint, members.size());
  why.members.assign(members.begin(), members.end());
  return why.get(context);
}

/// Creates one op for all members, at the insertion point of `builder`.
static void merge(OpBuilder &builder, StringRef what,
                  ArrayRef<BucketMember> members) {
  SmallVector<Location> locations;
  SmallVector<sharding::ReasonAttr> reasons;
  Operation *first = members.front().op;
  OperationState state(first->getLoc(), first->getName());
  for (const BucketMember &member : members) {
    locations.push_back(member.op->getLoc());
    state.addOperands(member.op->getOperands());
    state.addTypes(member.op->getResultTypes());
    sharding::ReasonAttr why =
        cast<sharding::MovementOp>(member.op).getWhy().value_or(
            sharding::Reason().get(builder.getContext()));
    if (why.getMembers().empty())
      reasons.append(member.op->getNumOperands(), why);
    else
      llvm::append_range(reasons, why.getMembers());
  }
  state.location = builder.getFusedLoc(locations);
  state.addAttribute("why", joinReasons(builder.getContext(), what, reasons));
  Operation *bucket = builder.create(state);
  unsigned next = 0;
  for (const BucketMember &member : members) {
    for (Value result : member.op->getResults())
      result.replaceAllUsesWith(bucket->getResult(next++));
    member.op->erase();
  }
}

void Bucketing::mergeAtLast(ArrayRef<BucketMember> members) {
  Operation *last = members.front().op;
  for (const BucketMember &member : members)
    if (last->isBeforeInBlock(member.op))
      last = member.op;
  OpBuilder builder(last);
  merge(builder, isa<sharding::AllGatherOp>(last) ? "new values" : "gradients",
        members);
}

/// The first member has the earliest token, and all members wait for it.
void Bucketing::mergeAtFirst(ArrayRef<BucketMember> members) {
  Operation *first = members.front().op;
  OpBuilder builder(first);
  auto wait = first->getOperand(0).getDefiningOp<graph::AfterOp>();
  for (const BucketMember &member : members.drop_front())
    for (OpOperand &slot : member.op->getOpOperands())
      if (auto after = slot.get().getDefiningOp<graph::AfterOp>()) {
        slot.set(graph::AfterOp::create(builder, after.getLoc(),
                                        after.getType(), after.getInput(),
                                        wait.getToken()));
        if (after->use_empty())
          after.erase();
      }
  merge(builder, "parameters", members);
}

namespace {
struct BucketCollectives
    : sharding::impl::BucketCollectivesBase<BucketCollectives> {
  using BucketCollectivesBase::BucketCollectivesBase;

  void runOnOperation() override {
    auto sizes = sharding::parseBucketSizes(megabytes.getValue());
    if (!sizes) {
      getOperation().emitError() << "bucket sizes: " << sizes.error().message;
      return signalPassFailure();
    }
    if (!sizes->areChosen)
      return Bucketing(getOperation(), *sizes, /*machine=*/nullptr).run();
    auto machine = cost::Machine::of(getOperation());
    if (failed(machine))
      return signalPassFailure();
    Bucketing(getOperation(), *sizes, &*machine).run();
  }
};
} // namespace
