// lower-precision: products in bf16 or f16, with f32 where digits matter.
//
// Which op computes in what follows from its trait (Precision.h), as
// torch.autocast's lists say it for CUDA. The step's boundary stays f32:
// parameters, the state of the optimizer, gradients where the update takes
// them, and outputs.

#include <map>
#include <set>

#include "compiler/training/Conversions.h"
#include "compiler/training/ParameterGradients.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/NamePattern.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Precision.h"
#include "dialects/graph/Provenance.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

namespace polyrank::training {
#define GEN_PASS_DEF_LOWERPRECISIONPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// The modules of the step's ops.
static std::vector<std::string> findModules(func::FuncOp step) {
  std::set<std::string> modules;
  step.walk([&](Operation *op) {
    for (StringRef scope = graph::getScope(op); !scope.empty();
         scope = scope.rsplit('.').first) {
      modules.insert(scope.str());
      if (!scope.contains('.'))
        break;
    }
  });
  return {modules.begin(), modules.end()};
}

namespace {
class Rewriter {
public:
  Rewriter(func::FuncOp step, FloatType low, ArrayRef<std::string> patterns)
      : step(step), phases(step), conversions(low), patterns(patterns),
        gradients(findParameterGradients(step.getBody().front())) {}

  LogicalResult run();
  /// Sends the gradients of parameters in the low type.
  void narrowGradients();

private:
  bool isWide(Value value) {
    return getElementTypeOrSelf(value.getType()) == conversions.getWide();
  }
  void rewrite(Block &block);
  void rewrite(Operation *op);
  void rewriteScan(graph::ScanOp scan);
  void useLowArguments(graph::ScanOp scan);
  void computeLow(Operation *op);
  void computeWide(Operation *op);
  void computeWidest(Operation *op);
  bool isInWideModule(Operation *op);
  bool isNeutral(Value value);
  bool isBias(Operation *op, Value value);
  void report();

  func::FuncOp step;
  graph::Phases phases;
  Conversions conversions;
  ArrayRef<std::string> patterns;
  llvm::DenseSet<size_t> matched;
  llvm::DenseSet<Value> gradients;
  unsigned numLow = 0;
  /// The ops that compute in f32 because of what they are, by kind, and the
  /// modules whose products do because of --fp32.
  std::map<std::string, unsigned> numWide;
  std::vector<std::string> kept;
};
} // namespace

/// Gives the op the operands that it had before the rewrite, in f32 again where
/// they have become low.
void Rewriter::computeWide(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(conversions.inWide(operand.get()));
}

/// A product of f32 becomes one of the low type, which is rounded once, except
/// where it is a part of the gradient of a parameter. A product of other floats
/// stays what it is.
void Rewriter::computeLow(Operation *op) {
  if (llvm::any_of(op->getOperands(), [&](Value value) {
        return isa<FloatType>(getElementTypeOrSelf(value.getType())) &&
               !isWide(value) && !conversions.isLow(value);
      }))
    return;
  ++numLow;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      operand.set(graph::isSum(op, value) ? conversions.inWide(value)
                                          : conversions.inLow(value));
  }
  bool mayBeWide = !isa<graph::CompositeOp>(op);
  for (Value result : op->getResults())
    if (!graph::isSum(op, result) && !(mayBeWide && gradients.contains(result)))
      conversions.narrow(result);
}

/// Returns true for numbers that, like those of a program text, take the type
/// of the values that they are combined with: constants that are alike at each
/// index, unless the low type cannot hold them.
bool Rewriter::isNeutral(Value value) {
  std::optional<double> number = graph::getSplat(value);
  return number &&
         (std::isfinite(graph::roundTo(conversions.getLow(), *number)) ||
          !std::isfinite(*number));
}

/// Returns true if `op` adds `value`, a parameter with an element for each
/// output of a product's weight, to that product. PyTorch's linear layers and
/// convolutions do so before they round.
bool Rewriter::isBias(Operation *op, Value value) {
  if (!isa<graph::AddOp>(op))
    return false;
  BlockArgument bias = Conversions::getArgument(value);
  Value other = op->getOperand(value == op->getOperand(0) ? 1 : 0);
  while (Operation *movement = other.getDefiningOp())
    if (isa<graph::ReshapeOp, graph::TransposeOp, graph::FoldOp>(movement))
      other = movement->getOperand(0);
    else
      break;
  auto product = other.getDefiningOp<graph::MatmulOp>();
  if (!bias || !product)
    return false;
  auto isWeight = [&](Value operand, ArrayRef<int64_t> contracted) {
    auto type = cast<RankedTensorType>(operand.getType());
    int64_t outputs = type.getNumElements();
    for (int64_t dim : contracted)
      outputs /= type.getDimSize(dim);
    Value source = value;
    while (auto broadcast = source.getDefiningOp<graph::BroadcastOp>())
      source = broadcast.getInput();
    return Conversions::getArgument(operand) &&
           graph::getGlobalType(source).getNumElements() == outputs;
  };
  return isWeight(product.getLhs(), product.getLhsContract()) ||
         isWeight(product.getRhs(), product.getRhsContract());
}

/// If some operands are low and no other operand demands f32, the result is low
/// too. It is computed in f32 and then rounded if some operands are neutral.
void Rewriter::computeWidest(Operation *op) {
  bool hasLow = false, hasWide = false, hasNeutral = false;
  for (Value value : op->getOperands()) {
    if (conversions.isLow(value))
      hasLow = true;
    else if (isWide(value) && (isNeutral(value) || isBias(op, value)))
      hasNeutral = true;
    else if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      hasWide = true;
  }
  if (!hasLow)
    return;
  // Ops that only move elements need no digits beyond those of their result.
  bool computesWide =
      hasWide || (hasNeutral && op->hasTrait<graph::Elementwise>());
  for (OpOperand &operand : op->getOpOperands())
    if (computesWide)
      operand.set(conversions.inWide(operand.get()));
    else if (isWide(operand.get()))
      operand.set(conversions.inLow(operand.get()));
  // A conversion has a type of its own, a comparison gives booleans, and a
  // scatter's result is a sum.
  if (hasWide || isa<graph::ConvertOp, graph::ScatterAddOp>(op))
    return;
  for (Value result : op->getResults())
    if (isWide(result)) {
      if (computesWide)
        conversions.round(result);
      else
        conversions.narrow(result);
    }
}

bool Rewriter::isInWideModule(Operation *op) {
  for (auto [i, pattern] : llvm::enumerate(patterns))
    if (StringRef module = graph::findModule(pattern, graph::getScope(op));
        !module.empty()) {
      matched.insert(i);
      return true;
    }
  return false;
}

/// Elements and uses have the types of the operands; carried values stay f32.
void Rewriter::rewriteScan(graph::ScanOp scan) {
  for (OpOperand &operand : scan.getCarryMutable())
    operand.set(conversions.inWide(operand.get()));
  auto take = [&](ValueRange operands, Block::BlockArgListType arguments) {
    for (auto [operand, argument] : llvm::zip_equal(operands, arguments))
      if (conversions.isLow(operand))
        conversions.narrow(argument);
  };
  take(scan.getOf(), scan.getElements());
  take(scan.getUses(), scan.getUsed());
  rewrite(scan.getBody().front());
  graph::ScanYieldOp yield = scan.getYield();
  for (OpOperand &operand : yield.getCarryMutable())
    operand.set(conversions.inWide(operand.get()));
  for (auto [element, stack] :
       llvm::zip_equal(yield.getStack(), scan.getStacks()))
    if (conversions.isLow(element))
      conversions.narrow(stack);
  useLowArguments(scan);
}

/// An argument that the body reads only in the low type is converted before the
/// loop: a weight once, instead of in each iteration.
void Rewriter::useLowArguments(graph::ScanOp scan) {
  auto use = [&](MutableOperandRange operands,
                 Block::BlockArgListType arguments) {
    for (auto [operand, argument] : llvm::zip_equal(operands, arguments)) {
      if (!argument.hasOneUse() || !isWide(argument))
        continue;
      auto convert = dyn_cast<graph::ConvertOp>(*argument.user_begin());
      if (!convert || !conversions.isLow(convert.getResult()))
        continue;
      operand.set(conversions.inLow(operand.get()));
      argument.setType(convert.getType());
      convert.getResult().replaceAllUsesWith(argument);
      convert.erase();
    }
  };
  use(scan.getOfMutable(), scan.getElements());
  use(scan.getUsesMutable(), scan.getUsed());
}

void Rewriter::rewrite(Operation *op) {
  if (phases.getPhase(op) == graph::Phase::Update ||
      op->hasTrait<OpTrait::IsTerminator>())
    return computeWide(op);
  if (auto region = dyn_cast<graph::MicrobatchesOp>(op)) {
    computeWide(op);
    return rewrite(region.getBody().front());
  }
  std::optional<graph::Precision> precision = graph::getPrecision(op);
  if (!precision)
    return computeWide(op);
  auto scan = dyn_cast<graph::ScanOp>(op);
  if (isInWideModule(op)) {
    if (scan || precision == graph::Precision::Low)
      kept.push_back(graph::getScope(op).str());
    return computeWide(op);
  }
  if (scan)
    return rewriteScan(scan);
  switch (*precision) {
  case graph::Precision::Low:
    return computeLow(op);
  case graph::Precision::Wide:
    if (isWide(op->getResult(0)))
      ++numWide[op->getName().stripDialect().str()];
    return computeWide(op);
  case graph::Precision::Widest:
    return computeWidest(op);
  }
}

void Rewriter::rewrite(Block &block) {
  bool isOfScan = isa<graph::ScanOp>(block.getParentOp());
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (!isOfScan || !op.hasTrait<OpTrait::IsTerminator>())
      ops.push_back(&op);
  for (Operation *op : ops)
    rewrite(op);
}

LogicalResult Rewriter::run() {
  Block &body = step.getBody().front();
  rewrite(body);
  for (auto region : body.getOps<graph::MicrobatchesOp>())
    graph::eraseDeadOps(region.getBody().front());
  graph::eraseDeadOps(body);
  for (auto [i, pattern] : llvm::enumerate(patterns))
    if (!matched.contains(i))
      return step.emitError("--fp32 ")
             << pattern << ": no module of this name computes anything"
             << nearestNames(pattern, findModules(step));
  report();
  return success();
}

void Rewriter::narrowGradients() {
  for (auto gradient : step.getBody().front().getOps<graph::GradientOp>()) {
    if (!isWide(gradient.getInput()))
      continue;
    OpBuilder builder(gradient);
    Type own = gradient.getType();
    auto parts = graph::ConvertOp::create(builder, gradient.getLoc(),
                                          gradient.getInput(),
                                          conversions.getLow(), true);
    gradient.getInputMutable().set(parts);
    gradient.getResult().setType(parts.getType());
    builder.setInsertionPointAfter(gradient);
    auto back = graph::ConvertOp::create(builder, gradient.getLoc(), own,
                                         gradient.getResult());
    gradient.getResult().replaceAllUsesExcept(back, back);
  }
}

void Rewriter::report() {
  std::string type = conversions.getLow().isBF16() ? "bf16" : "fp16";
  InFlightDiagnostic remark = step.emitRemark();
  remark << "--precision " << type << ": " << numLow
         << (numLow == 1 ? " product computes" : " products compute") << " in "
         << type << " with sums in f32";
  std::vector<std::string> wide;
  for (const auto &[name, count] : numWide)
    wide.push_back(std::to_string(count) + " " + name);
  if (!wide.empty())
    remark << "; " << llvm::join(wide, ", ") << " compute in f32";
  llvm::sort(kept);
  kept.erase(llvm::unique(kept), kept.end());
  if (!kept.empty())
    remark << "; --fp32 keeps " << groupNames(kept) << " in f32";
}

namespace {
class LowerPrecision
    : public training::impl::LowerPrecisionPassBase<LowerPrecision> {
public:
  using LowerPrecisionPassBase::LowerPrecisionPassBase;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult check(ModuleOp module);
  LogicalResult run(ModuleOp module);
};
} // namespace

/// The options must fit each other.
LogicalResult LowerPrecision::check(ModuleOp module) {
  constexpr const char *types[] = {"fp32", "bf16", "fp16"};
  if (!llvm::is_contained(types, precision))
    return module.emitError("--precision ")
           << precision << ": there are fp32, bf16 and fp16";
  if (!llvm::is_contained(types, reduceDtype))
    return module.emitError("--reduce-dtype ")
           << reduceDtype << ": there are fp32, bf16 and fp16";
  if (precision == "fp32" && !fp32.empty())
    return module.emitError("--fp32 ")
           << fp32 << ": all modules compute in f32 (--precision fp32)";
  if (precision == "fp32" && reduceDtype != "fp32")
    return module.emitError("--reduce-dtype ")
           << reduceDtype
           << " is below --precision fp32: products would keep digits that "
              "their gradients lose; give --precision "
           << reduceDtype;
  if (reduceDtype != "fp32" && reduceDtype != precision)
    return module.emitError("--reduce-dtype ")
           << reduceDtype << " does not hold what --precision " << precision
           << " computes; give " << precision << " or fp32";
  return success();
}

LogicalResult LowerPrecision::run(ModuleOp module) {
  if (failed(check(module)))
    return failure();
  if (precision == "fp32")
    return success();
  SmallVector<std::string> patterns;
  if (!fp32.empty()) {
    auto given = graph::splitPatterns(fp32);
    if (!given)
      return module.emitError("--fp32 ")
             << fp32 << ": " << given.error().message;
    patterns = std::move(*given);
  }
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return module.emitError("--precision ")
           << precision << ": there is no function @step (build-step)";
  auto low = precision == "bf16" ? FloatType(BFloat16Type::get(&getContext()))
                                 : FloatType(Float16Type::get(&getContext()));
  Rewriter rewriter(step, low, patterns);
  if (failed(rewriter.run()))
    return failure();
  if (reduceDtype != "fp32")
    rewriter.narrowGradients();
  return success();
}
