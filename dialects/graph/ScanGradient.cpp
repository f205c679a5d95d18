// The gradient of a scan: a scan in the other direction.
//
// Its body is the gradient of the forward's body. The forward's values that it
// reads are kept: the forward gives them as additional stacks. Values that are
// cheap, or the same in all iterations, are recomputed instead. Gradients of
// carried values are carried back. Gradients of `uses` are sums over all
// iterations: if the contribution is a product or a sum, its factors are
// stacked, and one product or sum after the scan covers all iterations;
// otherwise it is accumulated as a carried value, of narrow floats in f32.

#include <functional>

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Reverse.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

namespace {

/// A stacked value: an element that the backward takes, or one that it gives.
struct Stacked {
  bool isTaken;
  unsigned number;
};

/// The contribution of an iteration to the gradient of a used value.
struct Contribution {
  unsigned use;
  Value value;
  /// For a product or sum: its factors, and how the total over all iterations
  /// is computed from their stacks. Null if it is accumulated within the scan.
  SmallVector<Stacked, 2> factors = {};
  std::function<Value(Parts &, ArrayRef<Value>)> addUp = nullptr;
};

class GradientBuilder {
public:
  GradientBuilder(ScanOp scan, OpBuilder &outer, ArrayRef<Value> incoming,
                  ArrayRef<bool> needed)
      : scan(scan), outside(outer, scan.getLoc()), incoming(incoming),
        needed(needed), builder(outer.getContext(), outer.getListener()),
        inside(builder, scan.getLoc()) {
    region->push_back(block);
    builder.setInsertionPointToEnd(block);
  }

  FailureOr<SmallVector<Value>> run();

private:
  /// An argument of the backward's body and the operand that it stands for.
  struct Argument {
    Value inside, outside;
    bool isUsed = true;
  };

  static bool isFloat(Value value) {
    return isa<FloatType>(getElementTypeOrSelf(value));
  }
  Value add(SmallVectorImpl<Argument> &list, Type type, Value outer) {
    list.push_back({block->addArgument(type, scan.getLoc()), outer});
    return list.back().inside;
  }
  /// The cotangent of an argument of the forward's body; null if there is none.
  Value take(Value argument) {
    return cotangents.lookup(repeated.lookup(argument));
  }

  void repeatForward();
  void seed();
  LogicalResult differentiate();
  void split(unsigned use, Value gradient);
  bool isInvariant(Value value);
  bool computesInvariant(Operation *op);
  unsigned getResidual(Value value);
  Stacked stack(Value value);
  unsigned giveStack(Value value);
  void give();
  void readResiduals(Operation &op);
  void eraseDead();
  void arrangeArguments();
  void keepResiduals();
  SmallVector<Value> getOutside(ArrayRef<Argument> list);
  SmallVector<Value> collect();

  ScanOp scan;
  Parts outside;
  ArrayRef<Value> incoming;
  ArrayRef<bool> needed;

  std::unique_ptr<Region> region = std::make_unique<Region>();
  Block *block = new Block; // the backward's body, of `region`
  OpBuilder builder;
  Parts inside;
  /// From the forward's body to its copy in the backward's body, and back.
  IRMapping repeated;
  llvm::DenseMap<Value, Value> originals;
  llvm::SetVector<Operation *> copies, kept;
  llvm::DenseMap<Operation *, bool> invariant; // results of earlier queries
  Cotangents cotangents;
  SmallVector<Argument> elements, carried, uses;
  /// Values of the forward's body that it keeps, each with the number of the
  /// backward's element that stands for it.
  llvm::MapVector<Value, unsigned> residuals;
  SmallVector<Contribution> contributions;
  /// The stack elements and the next carried values of an iteration.
  SmallVector<Value> stacks, next;
  /// Which of these are the gradients of elements, of carried values and of
  /// used values.
  llvm::DenseMap<unsigned, unsigned> ofElement, ofCarried, ofUse;
  ScanOp backward;
};

} // namespace

/// Copies the forward's body, over arguments of which some will be removed.
void GradientBuilder::repeatForward() {
  OpBuilder cloner(scan.getContext()); // these ops are no derivatives
  cloner.setInsertionPointToEnd(block);
  for (auto [argument, of] : llvm::zip_equal(scan.getElements(), scan.getOf()))
    repeated.map(argument, add(elements, argument.getType(), of));
  for (BlockArgument argument : scan.getCarried()) {
    Value copy = block->addArgument(argument.getType(), argument.getLoc());
    repeated.map(argument, copy);
    originals[copy] = argument;
  }
  for (auto [argument, use] : llvm::zip_equal(scan.getUsed(), scan.getUses()))
    repeated.map(argument, add(uses, argument.getType(), use));
  for (Operation &op : scan.getBody().front().without_terminator()) {
    Operation *copy = cloner.clone(op, repeated);
    copies.insert(copy);
    for (auto [original, result] :
         llvm::zip_equal(op.getResults(), copy->getResults()))
      originals[result] = original;
  }
}

/// Seeds the cotangents of the values that an iteration gives.
void GradientBuilder::seed() {
  auto addTo = [&](Value given, Value cotangent) {
    Value &sum = cotangents[repeated.lookup(given)];
    sum = sum ? inside.add(sum, cotangent) : cotangent;
  };
  ScanYieldOp yield = scan.getYield();
  for (auto [value, gradient] : llvm::zip(yield.getStack(), incoming))
    if (gradient)
      addTo(value, add(elements, value.getType(), gradient));
  for (auto [value, gradient] : llvm::zip_equal(
           yield.getCarry(), incoming.drop_front(scan.getNumStacks())))
    if (isFloat(value))
      addTo(value, add(carried, value.getType(),
                       gradient ? gradient : outside.splat(value, 0)));
}

LogicalResult GradientBuilder::differentiate() {
  SmallVector<Value> wanted;
  unsigned numOf = scan.getOf().size(), numCarry = scan.getCarry().size();
  for (auto [i, argument] : llvm::enumerate(scan.getBody().getArguments()))
    if (isFloat(argument) &&
        (needed[i] || (i >= numOf && i < numOf + numCarry)))
      wanted.push_back(repeated.lookup<Value>(argument));
  Dependents dependents = findDependents(*block, wanted);
  seed();
  return addCotangents(builder, dependents, cotangents, [](Operation *) {});
}

/// Returns true if the value is the same in all iterations.
bool GradientBuilder::isInvariant(Value value) {
  if (isa<BlockArgument>(value))
    return llvm::any_of(
        uses, [&](const Argument &use) { return use.inside == value; });
  return computesInvariant(value.getDefiningOp());
}

/// Each op is examined once, since values are used more than once.
bool GradientBuilder::computesInvariant(Operation *op) {
  auto known = invariant.find(op);
  if (known != invariant.end())
    return known->second;
  bool is = llvm::all_of(op->getOperands(),
                         [&](Value operand) { return isInvariant(operand); });
  return invariant[op] = is;
}

/// The number of the element that stands for `value` of the forward.
unsigned GradientBuilder::getResidual(Value value) {
  auto [entry, isNew] =
      residuals.try_emplace(originals.at(value), elements.size());
  if (isNew)
    add(elements, value.getType(), {});
  return entry->second;
}

unsigned GradientBuilder::giveStack(Value value) {
  auto found = llvm::find(stacks, value);
  unsigned number = found - stacks.begin();
  if (found == stacks.end())
    stacks.push_back(value);
  return number;
}

Stacked GradientBuilder::stack(Value value) {
  for (auto [i, element] : llvm::enumerate(elements))
    if (element.inside == value)
      return {true, static_cast<unsigned>(i)};
  if (originals.contains(value))
    return {true, getResidual(value)};
  return {false, giveStack(value)};
}

static SmallVector<int64_t> behindIterations(ArrayRef<int64_t> dims) {
  return llvm::map_to_vector(dims, [](int64_t dim) { return dim + 1; });
}

static SmallVector<int64_t> withIterations(ArrayRef<int64_t> dims) {
  SmallVector<int64_t> all = {0};
  llvm::append_range(all, behindIterations(dims));
  return all;
}

/// Splits the gradient of a used value into summands that can be computed after
/// the scan and summands that cannot.
void GradientBuilder::split(unsigned use, Value gradient) {
  if (auto sum = gradient.getDefiningOp<AddOp>()) {
    split(use, sum.getLhs());
    split(use, sum.getRhs());
    return;
  }
  Contribution contribution{use, gradient};
  std::function<Value(Parts &, Value)> finish = [](Parts &, Value value) {
    return value;
  };
  Operation *op = gradient.getDefiningOp();
  for (; isa_and_present<TransposeOp, ReshapeOp>(op);
       op = op->getOperand(0).getDefiningOp()) {
    auto transpose = dyn_cast<TransposeOp>(op);
    SmallVector<int64_t> dims;
    if (transpose)
      dims = llvm::to_vector(transpose.getPermutation());
    finish = [finish, dims, isTranspose = !!transpose,
              type = op->getResult(0).getType()](Parts &parts, Value value) {
      Value moved = isTranspose ? parts.transpose(value, dims)
                                : ReshapeOp::create(parts.builder,
                                                    parts.location, type, value)
                                      .getResult();
      return finish(parts, moved);
    };
  }
  auto product = dyn_cast_if_present<MatmulOp>(op);
  auto sum = dyn_cast_if_present<ReduceOp>(op);
  if (product)
    contribution.addUp =
        [finish, lhsBatch = behindIterations(product.getLhsBatch()),
         rhsBatch = behindIterations(product.getRhsBatch()),
         lhsContract = withIterations(product.getLhsContract()),
         rhsContract = withIterations(product.getRhsContract())](
            Parts &parts, ArrayRef<Value> stacks) {
          Value added = parts.matmul(stacks[0], stacks[1], lhsBatch, rhsBatch,
                                     lhsContract, rhsContract);
          return finish(parts, added);
        };
  else if (sum && sum.getKind() == sharding::ReductionKind::Sum)
    contribution.addUp = [finish, dims = withIterations(sum.getDims())](
                             Parts &parts, ArrayRef<Value> stacks) {
      return finish(parts, parts.sum(stacks[0], dims));
    };
  if (contribution.addUp && llvm::none_of(op->getOperands(), [&](Value value) {
        return isInvariant(value);
      }))
    for (Value operand : op->getOperands())
      contribution.factors.push_back(stack(operand));
  else
    contribution.addUp = nullptr;
  contributions.push_back(std::move(contribution));
}

/// Builds the end of the body: gradients of elements and factors, gradients of
/// carried values, and sums.
void GradientBuilder::give() {
  unsigned numOf = scan.getOf().size(), numCarry = scan.getCarry().size();
  for (auto [i, argument] : llvm::enumerate(scan.getElements()))
    if (Value gradient = take(argument); gradient && needed[i])
      ofElement[i] = giveStack(gradient);
  for (auto [i, argument] : llvm::enumerate(scan.getUsed()))
    if (Value gradient = take(argument);
        gradient && needed[numOf + numCarry + i])
      split(i, gradient);
  for (auto [i, argument] : llvm::enumerate(scan.getCarried())) {
    if (!isFloat(argument))
      continue;
    ofCarried[i] = next.size();
    Value gradient = take(argument);
    next.push_back(gradient ? gradient : inside.splat(argument, 0));
  }
  for (const Contribution &contribution : contributions) {
    if (contribution.addUp)
      continue;
    auto [entry, isNew] = ofUse.try_emplace(contribution.use, next.size());
    RankedTensorType type = getGlobalType(contribution.value);
    type = type.clone(accumulatorOf(type.getElementType()));
    if (isNew)
      next.push_back(
          add(carried, type, splat(outside.builder, scan.getLoc(), type, 0)));
    Value &sum = next[entry->second];
    sum = inside.add(sum,
                     inside.inType(contribution.value, type.getElementType()));
  }
  ScanYieldOp::create(builder, scan.getLoc(), stacks, next);
}

/// Makes the forward keep, or the backward recompute, the forward's values that
/// the op reads.
void GradientBuilder::readResiduals(Operation &op) {
  for (OpOperand &operand : op.getOpOperands()) {
    Value value = operand.get();
    Operation *from = value.getDefiningOp();
    if (!originals.contains(value))
      continue;
    bool isFree =
        isa_and_present<ConstantOp, IotaOp, BroadcastOp, ReshapeOp>(from);
    if (!isFree && !(from && isInvariant(value)))
      operand.set(elements[getResidual(value)].inside);
    else if (kept.insert(from))
      readResiduals(*from);
  }
}

void GradientBuilder::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (isOpTriviallyDead(&op)) {
      for (Value result : op.getResults())
        originals.erase(result);
      copies.remove(&op);
      op.erase();
    }
}

/// Removes arguments that nothing reads; the others get the order of a scan's
/// arguments.
void GradientBuilder::arrangeArguments() {
  auto *ordered = new Block;
  region->push_back(ordered);
  for (auto *list : {&elements, &carried, &uses})
    for (Argument &argument : *list) {
      argument.isUsed = list == &carried || !argument.inside.use_empty();
      if (argument.isUsed)
        argument.inside.replaceAllUsesWith(
            ordered->addArgument(argument.inside.getType(), scan.getLoc()));
      argument.inside = {};
    }
  ordered->getOperations().splice(ordered->end(), block->getOperations());
  block->erase();
  block = ordered;
}

/// Replaces the forward, whose results are no longer read, by a copy with
/// additional stacks of the kept values.
void GradientBuilder::keepResiduals() {
  if (residuals.empty())
    return;
  auto body = std::make_unique<Region>();
  IRMapping mapping;
  scan.getBody().cloneInto(body.get(), mapping);
  // A value that the forward already stacks is not stacked twice.
  auto yield = cast<ScanYieldOp>(body->front().getTerminator());
  SmallVector<unsigned> numbers;
  for (auto [original, number] : residuals) {
    Value value = mapping.lookup(original);
    ValueRange given = yield.getStack();
    auto found = llvm::find(given, value);
    numbers.push_back(found - given.begin());
    if (found == given.end())
      yield.getStackMutable().append(value);
  }
  OpBuilder before(scan);
  auto keeping = ScanOp::create(
      before, scan.getLoc(), scan.getCount(), scan.getReversed(), scan.getOf(),
      scan.getCarry(), scan.getUses(), std::move(body));
  keeping->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  ValueRange given = keeping.getStacks();
  for (auto [from, to] : llvm::zip(scan.getStacks(), given))
    from.replaceAllUsesWith(to);
  for (auto [from, to] : llvm::zip_equal(scan.getLast(), keeping.getLast()))
    from.replaceAllUsesWith(to);
  for (auto [residual, number] : llvm::zip_equal(residuals, numbers))
    elements[residual.second].outside = given[number];
}

SmallVector<Value> GradientBuilder::getOutside(ArrayRef<Argument> list) {
  SmallVector<Value> values;
  for (const Argument &argument : list)
    if (argument.isUsed)
      values.push_back(argument.outside);
  return values;
}

/// The gradients of the scan's operands.
SmallVector<Value> GradientBuilder::collect() {
  unsigned numOf = scan.getOf().size(), numCarry = scan.getCarry().size();
  SmallVector<Value> gradients(scan->getNumOperands());
  for (auto [element, number] : ofElement)
    gradients[element] = backward.getStacks()[number];
  for (auto [value, number] : ofCarried)
    gradients[numOf + value] = backward.getLast()[number];
  for (auto [use, number] : ofUse)
    gradients[numOf + numCarry + use] = outside.inType(
        backward.getLast()[number], getElementTypeOrSelf(scan.getUses()[use]));
  for (const Contribution &contribution : contributions) {
    if (!contribution.addUp)
      continue;
    SmallVector<Value> factors;
    for (Stacked factor : contribution.factors)
      factors.push_back(factor.isTaken
                            ? elements[factor.number].outside
                            : Value(backward.getStacks()[factor.number]));
    Value added = contribution.addUp(outside, factors);
    Value &sum = gradients[numOf + numCarry + contribution.use];
    sum = sum ? outside.add(sum, added) : added;
  }
  return gradients;
}

FailureOr<SmallVector<Value>> GradientBuilder::run() {
  repeatForward();
  if (failed(differentiate()))
    return failure();
  give();
  eraseDead();
  for (Operation &op : *block)
    if (!copies.contains(&op))
      readResiduals(op);
  eraseDead(); // of the copies, those that are not recomputed
  arrangeArguments();
  keepResiduals();
  backward =
      ScanOp::create(outside.builder, scan.getLoc(), scan.getCount(),
                     !scan.getReversed(), getOutside(elements),
                     getOutside(carried), getOutside(uses), std::move(region));
  return collect();
}

FailureOr<SmallVector<Value>>
ScanOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                      ArrayRef<bool> needed) {
  return GradientBuilder(*this, builder, resultGradients, needed).run();
}
