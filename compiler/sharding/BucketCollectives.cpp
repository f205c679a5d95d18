// Merges reductions of gradients into buckets, and gathers of parameters.
//
// A gradient is ready when the backward has reached the op that uses its
// parameter, so in reverse order of use; buckets are filled in that order.
// Only reductions whose results the backward does not read are merged: nothing
// waits for a bucket but the update. Li et al., PyTorch Distributed
// (2020), 3.2. The first bucket is a small one, so that the link has something
// to do early. For gathers of new parameters nothing waits but the step's end.
// Parameters that are gathered where they are used (ZeRO stage 3) are there
// before the first op of their phase: a bucket stands where its first is
// needed.

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/BucketSizes.h"
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

namespace polyrank::sharding {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {
/// What the collectives of one bucket have in common.
struct Key {
  sharding::MovementKind movement;
  SmallVector<sharding::AxisRef> axes;
  sharding::ReductionKind kind;
  Type element;
  /// How many candidates stand in front of it on the longest chain of operands.
  /// Members of a bucket have the same depth, so none waits for another. Of
  /// gathers of stored parameters it is 0 in the forward and 1 in the backward,
  /// behind `graph.after`.
  int depth;
  bool isStored;
  /// Of a pipeline: the ranks of another stage run another program.
  std::optional<int64_t> stage;

  friend bool operator==(const Key &, const Key &) = default;
};

struct Candidate {
  Operation *op;
  Key key;
  /// Position of what computes it; in the region, if it is a sum.
  int64_t ready;
  int64_t bytes;
};

class Bucketing {
public:
  Bucketing(func::FuncOp function, const sharding::BucketSizes &sizes)
      : function(function), sizes(sizes), phases(function) {}

  void run();

private:
  void findReadByBackward(Block &block);
  bool isReduction(Operation &op) const;
  BlockArgument getStored(Value value);
  bool gathersStored(Operation &op);
  int64_t getReady(Value gradient) const;
  Candidate describe(Operation *op, int depth);
  void run(Block &block);
  void mergeAtLast(ArrayRef<Candidate> members);
  void mergeAtFirst(ArrayRef<Candidate> members);

  func::FuncOp function;
  sharding::BucketSizes sizes;
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

/// What of the block some op of the backward depends on, from the last op. What
/// only moves a gradient on its way to the update waits for nobody.
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

/// Whether the op gathers what the next step begins with, and nobody else
/// reads.
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

/// The parameter that the value is, directly or behind `graph.after`.
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

/// Whether the op gathers parameters as the step finds them.
bool Bucketing::gathersStored(Operation &op) {
  return isa<sharding::AllGatherOp>(op) &&
         llvm::all_of(op.getOperands(),
                      [&](Value operand) { return getStored(operand); });
}

Candidate Bucketing::describe(Operation *op, int depth) {
  auto collective = cast<sharding::MovementOp>(op);
  Value first = op->getOperand(0);
  bool isStored = gathersStored(*op);
  if (isStored)
    depth = isa_and_present<graph::AfterOp>(first.getDefiningOp());
  Candidate candidate{op,
                      {collective.getMovementKind(),
                       collective.getMovement().axes,
                       sharding::getLayout(first).getPartialKind(),
                       cast<RankedTensorType>(first.getType()).getElementType(),
                       depth, isStored, graph::getStage(op)},
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

void Bucketing::run(Block &block) {
  llvm::DenseMap<Value, int> depth;
  SmallVector<Candidate> candidates;
  for (Operation &op : block) {
    int above = 0;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        above = std::max(above, depth.lookup(operand));
    });
    bool isStored = gathersStored(op);
    bool isCandidate = isStored || isReduction(op) || gathersNewParameter(op);
    // A gather of what is stored waits for none of its bucket.
    for (Value result : op.getResults())
      depth[result] = above + (isCandidate && !isStored);
    if (isCandidate)
      candidates.push_back(describe(&op, above));
  }
  llvm::sort(candidates, [&](const Candidate &a, const Candidate &b) {
    return std::pair(a.ready, position.lookup(a.op)) <
           std::pair(b.ready, position.lookup(b.op));
  });

  // The parameters of one bucket are in memory at the same time. They may take
  // as many bytes as the largest of all, for which there must be room anyway.
  int64_t largestStored = 0;
  for (const Candidate &candidate : candidates)
    if (candidate.key.isStored)
      largestStored = std::max(largestStored, candidate.bytes);

  bool merged = false;
  SmallVector<bool> done(candidates.size());
  // Axes over which gradients have a bucket: groups have queues of their own.
  SmallVector<ArrayRef<sharding::AxisRef>> begun;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (done[i])
      continue;
    SmallVector<Candidate> members;
    const Key &key = candidates[i].key;
    int64_t bytes = 0, most = sizes.get(key.movement);
    if (key.isStored)
      most = std::min(most, largestStored);
    if (key.movement != sharding::MovementKind::AllGather &&
        !llvm::is_contained(begun, ArrayRef(key.axes))) {
      begun.push_back(key.axes);
      most = std::min(most, sizes.first);
    }
    for (size_t j = i; j < candidates.size(); ++j) {
      if (done[j] || !(candidates[j].key == key))
        continue;
      if (!members.empty() && bytes + candidates[j].bytes > most)
        break;
      members.push_back(candidates[j]);
      bytes += candidates[j].bytes;
      done[j] = true;
    }
    if (members.size() < 2)
      continue;
    if (members.front().key.isStored) {
      mergeAtFirst(members);
    } else {
      mergeAtLast(members);
      merged = true;
    }
  }
  // A bucket stands where its last member stood; users follow it.
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
  for (Block *block : blocks)
    run(*block);
}

/// The reasons of all members, and what a reader of the whole wants first.
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

/// One op for all members, in front of which `builder` stands.
static void merge(OpBuilder &builder, StringRef what,
                  ArrayRef<Candidate> members) {
  SmallVector<Location> locations;
  SmallVector<sharding::ReasonAttr> reasons;
  Operation *first = members.front().op;
  OperationState state(first->getLoc(), first->getName());
  for (const Candidate &member : members) {
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
  for (const Candidate &member : members) {
    for (Value result : member.op->getResults())
      result.replaceAllUsesWith(bucket->getResult(next++));
    member.op->erase();
  }
}

void Bucketing::mergeAtLast(ArrayRef<Candidate> members) {
  Operation *last = members.front().op;
  for (const Candidate &member : members)
    if (last->isBeforeInBlock(member.op))
      last = member.op;
  OpBuilder builder(last);
  merge(builder, isa<sharding::AllGatherOp>(last) ? "new values" : "gradients",
        members);
}

/// The first has the earliest token, and all wait for that.
void Bucketing::mergeAtFirst(ArrayRef<Candidate> members) {
  Operation *first = members.front().op;
  OpBuilder builder(first);
  auto wait = first->getOperand(0).getDefiningOp<graph::AfterOp>();
  for (const Candidate &member : members.drop_front())
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
    Bucketing(getOperation(), *sizes).run();
  }
};
} // namespace
