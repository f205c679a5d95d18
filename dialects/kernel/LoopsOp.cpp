// kernel.loops: its queries, its verifier, and merging of variables.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Tensor.h"
#include "dialects/kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;

Affine *kernel::getExpression(Operation *op) {
  return TypeSwitch<Operation *, Affine *>(op)
      .Case<LoadOp, StoreOp, ScatterAddOp>(
          [](auto op) { return &op.getProperties().offset; })
      .Case<IndexOp, InRangeOp>(
          [](auto op) { return &op.getProperties().value; })
      .Default(nullptr);
}

size_t LoopsOp::countValues() {
  return llvm::count_if(getBlock(),
                        [](Operation &op) { return op.getNumResults() != 0; });
}

SmallVector<int64_t> LoopsOp::getSizes() {
  return llvm::map_to_vector(getVariables(),
                             [](Variable variable) { return variable.size; });
}

int64_t LoopsOp::getNumPoints(bool ofReduced) {
  int64_t result = 1;
  for (Variable variable : getVariables())
    if (variable.isReduced == ofReduced)
      result *= variable.size;
  return result;
}

bool LoopsOp::hasReductions() { return !getBlock().getOps<ReduceOp>().empty(); }

RankedTensorType LoopsOp::getArgumentType(unsigned argument) {
  return cast<RankedTensorType>(getArguments()[argument].getType());
}

RankedTensorType LoopsOp::getResultType(unsigned result) {
  return cast<RankedTensorType>((*this)->getResult(result).getType());
}

unsigned LoopsOp::getArgumentNumber(Value tensor) {
  OperandRange arguments = getArguments();
  return llvm::find(arguments, tensor) - arguments.begin();
}

std::vector<StoreOp> LoopsOp::getStores() {
  auto stores = getBlock().getOps<StoreOp>();
  return {stores.begin(), stores.end()};
}

ScatterAddOp LoopsOp::getScatter() {
  auto scatters = getBlock().getOps<ScatterAddOp>();
  return scatters.empty() ? ScatterAddOp() : *scatters.begin();
}

bool LoopsOp::isFull(StoreOp store) {
  for (auto [c, variable] :
       llvm::zip_equal(store.getOffset().coefficients, getVariables()))
    if (c != 0 && variable.isReduced)
      return true;
  return false;
}

// Merging

/// Variables a (outer) and b can be merged if every expression counts a in
/// steps of b's size.
static bool areOne(ArrayRef<Variable> variables, ArrayRef<Affine *> expressions,
                   size_t a, size_t b) {
  return variables[a].isReduced == variables[b].isReduced &&
         llvm::all_of(expressions, [&](Affine *affine) {
           return affine->coefficients[a] ==
                  affine->coefficients[b] * variables[b].size;
         });
}

void LoopsOp::mergeVariables() {
  SmallVector<Affine *> expressions;
  for (Operation &op : getBlock())
    if (Affine *expression = getExpression(&op))
      expressions.push_back(expression);
  bool isScatter = getScatter() != nullptr;
  SmallVector<Variable> &variables = getProperties().variables;
  auto mergeOne = [&] {
    for (size_t a = 0; a < variables.size(); ++a)
      for (size_t b = 0; b < variables.size(); ++b) {
        // The order of a scatter's updates is that of its variables.
        if (a == b || (isScatter && a > b) ||
            !areOne(variables, expressions, a, b))
          continue;
        variables[b].size *= variables[a].size;
        variables.erase(variables.begin() + a);
        for (Affine *affine : expressions)
          affine->coefficients.erase(affine->coefficients.begin() + a);
        return true;
      }
    return false;
  };
  while (mergeOne())
    ;
}

// Verifiers

/// [2] The ops that a body may contain.
static bool isScalarOp(Operation &op) {
  StringRef dialect = op.getDialect() ? op.getDialect()->getNamespace() : "";
  return op.getNumRegions() == 0 && op.getNumResults() <= 1 &&
         (dialect == "arith" || dialect == "math" || dialect == "kernel");
}

/// [5] Returns the narrow float with which the op computes; null if it only
/// moves or converts it. Ops of this dialect have constraints of their own.
static Type findNarrowArithmetic(Operation &op) {
  if (isa<arith::ConstantOp, arith::SelectOp, CastOpInterface>(op) ||
      isa<KernelDialect>(op.getDialect()))
    return Type();
  for (TypeRange types :
       {TypeRange(op.getOperandTypes()), TypeRange(op.getResultTypes())})
    for (Type type : types)
      if (graph::isNarrow(type))
        return type;
  return Type();
}

static LogicalResult verifyBody(LoopsOp loops) {
  size_t count = loops.getVariables().size();
  SmallVector<int64_t> sizes = loops.getSizes();
  for (Operation &op : loops.getBlock()) {
    if (!isScalarOp(op))
      return op.emitOpError("[2] is no op of elements in kernel.loops");
    if (Type narrow = findNarrowArithmetic(op))
      return loops.emitOpError("[5] computes with ")
             << narrow << " in " << op.getName() << "; convert to "
             << graph::accumulatorOf(narrow)
             << ", and the result of the formula back";
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() != &loops.getBlock() &&
          !llvm::is_contained(loops.getArguments(), operand))
        return op.emitOpError("[2] reads what is no operand of kernel.loops");
    const Affine *expression = getExpression(&op);
    if (expression && expression->coefficients.size() != count)
      return op.emitOpError("[1] mentions ")
             << expression->coefficients.size() << " variables of " << count;
    auto load = dyn_cast<LoadOp>(op);
    if (!load || load.getPredicate() || !load.getIndices().empty())
      continue;
    int64_t low = expression->minimum(sizes), high = expression->maximum(sizes);
    int64_t elements =
        cast<RankedTensorType>(load.getSource().getType()).getNumElements();
    if (low < 0 || high >= elements)
      return op.emitOpError("[4] reads elements ")
             << low << " to " << high << " of " << elements;
  }
  return success();
}

static LogicalResult verifyScatter(LoopsOp loops, ScatterAddOp scatter) {
  SmallVector<int64_t> sizes = loops.getSizes();
  int64_t low = scatter.getOffset().minimum(sizes);
  int64_t last = (scatter.getLimit() - 1) * scatter.getStride();
  int64_t high =
      scatter.getOffset().maximum(sizes) + std::max<int64_t>(0, last);
  int64_t elements = loops.getResultType(0).getNumElements();
  if (low + std::min<int64_t>(0, last) < 0 || high >= elements)
    return scatter.emitOpError("[4] adds to elements ")
           << low + std::min<int64_t>(0, last) << " to " << high << " of "
           << elements;
  return success();
}

LogicalResult LoopsOp::verifyRegions() {
  for (Variable variable : getVariables())
    if (variable.size < 1)
      return emitOpError("[1] has a variable of size ") << variable.size;
  if (failed(verifyBody(*this)))
    return failure();
  std::vector<StoreOp> stores = getStores();
  auto scatters = getBlock().getOps<ScatterAddOp>();
  if (!scatters.empty()) {
    if (!llvm::hasSingleElement(scatters) || !stores.empty() ||
        getNumResults() != 1)
      return emitOpError("[3] with kernel.scatter_add has one result and "
                         "nothing else that writes");
    return verifyScatter(*this, *scatters.begin());
  }
  SmallVector<bool> isStored(getNumResults());
  SmallVector<int64_t> sizes = getSizes();
  for (StoreOp store : stores) {
    size_t number = store.getNumber();
    if (number >= isStored.size() || isStored[number])
      return store.emitOpError("[3] writes to result ")
             << number << ", which "
             << (number < isStored.size() ? "is stored twice" : "there is not");
    isStored[number] = true;
    int64_t points = getNumPoints(/*ofReduced=*/false);
    if (isFull(store))
      points *= getNumPoints(/*ofReduced=*/true);
    int64_t elements = getResultType(number).getNumElements();
    if (points != elements || !isDense(store.getOffset(), sizes, elements))
      return store.emitOpError("[3] does not write each of ")
             << elements << " elements once";
  }
  if (!llvm::all_of(isStored, [](bool stored) { return stored; }))
    return emitOpError("[3] has a result that is not stored");
  return success();
}

LogicalResult LoadOp::verify() {
  Type element = cast<RankedTensorType>(getSource().getType()).getElementType();
  if (getType() != element)
    return emitOpError("[1] gives ")
           << getType() << " where the tensor has " << element;
  if (getIndices().size() != getStrides().size())
    return emitOpError("[1] has ") << getIndices().size() << " indices and "
                                   << getStrides().size() << " strides";
  return success();
}

LogicalResult ReduceOp::verify() {
  auto input = dyn_cast<FloatType>(getInput().getType());
  auto result = dyn_cast<FloatType>(getResult().getType());
  bool isWider = input && result && result.getWidth() > input.getWidth();
  if (getResult().getType() != getInput().getType() && !isWider)
    return emitOpError("[1] reduces ")
           << getInput().getType() << " into " << getResult().getType()
           << ", which is neither its type nor a wider float";
  if (graph::isNarrow(getResult().getType()))
    return emitOpError("[2] reduces ")
           << getInput().getType() << " into " << getResult().getType()
           << ", in which sums lose summands: its accumulator is at least f32";
  return success();
}

LogicalResult StoreOp::verify() {
  auto loops = cast<LoopsOp>((*this)->getParentOp());
  if (getNumber() < 0 || getNumber() >= loops->getNumResults())
    return success(); // reported by the loops
  Type element = loops.getResultType(getNumber()).getElementType();
  if (getValue().getType() != element)
    return emitOpError("[1] writes ")
           << getValue().getType() << " to a result of " << element;
  return success();
}

LogicalResult ScatterAddOp::verify() {
  auto loops = cast<LoopsOp>((*this)->getParentOp());
  if (loops->getNumResults() != 1)
    return success(); // reported by the loops
  RankedTensorType type = loops.getResultType(0);
  if (getUpdate().getType() != type.getElementType())
    return emitOpError("[1] adds ")
           << getUpdate().getType() << " to a result of "
           << type.getElementType();
  if (getInit() && getInit().getType() != type)
    return emitOpError("[1] begins with ")
           << getInit().getType() << " where the result is " << type;
  if (graph::isNarrow(type.getElementType()))
    return emitOpError("[2] adds up ")
           << type.getElementType()
           << ", in which sums lose summands: convert the updates to "
           << graph::accumulatorOf(type.getElementType());
  return success();
}
