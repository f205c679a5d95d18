// shard-updates: ZeRO, so that devices keep parts of what they would all keep
// whole (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models, 2020, 5).
//
// The gradient of a parameter that is replicated over some axes is a partial
// sum over them. Reducing it to parts and gathering the new parameter moves as
// many bytes as all-reducing the gradient, but each device then updates one
// block and keeps only that block of the optimizer state: stage 1. With several
// microbatches a device that reduces the gradient of each keeps one block of
// their sum (stage 2), and one that gathers parameters where they are used
// keeps one block of them (stage 3). So the axes are appended to the layouts of
// the state, the sum, and the parameter. Elementwise ops follow; other ops (a
// norm over all gradients) are laid out again between these.

#include <map>

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/BatchAxes.h"
#include "compiler/sharding/LayOutAgain.h"
#include "compiler/sharding/NarrowGradients.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/UpdateSplitter.h"
#include "compiler/sharding/Why.h"
#include "dialects/pipeline/Pipeline.h"
#include "support/Names.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

namespace polyrank::sharding {
#define GEN_PASS_DEF_SHARDUPDATES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t getLocalElements(RankedTensorType type) {
  return graph::numElements(getLayout(type).getLocalShape(type.getShape()));
}

static int64_t getLocalBytes(RankedTensorType type) {
  return getLocalElements(type) * type.getElementTypeBitWidth() / 8;
}

namespace {

/// The findings that the pass reports at its end: names of tensors, by the text
/// of the remark, in the order in which the texts first occurred.
template <typename Entry>
using ByText =
    llvm::MapVector<std::string, Entry, std::map<std::string, unsigned>>;
struct Names {
  std::vector<std::string> names;
  int64_t bytes = 0;
  void add(const std::string &name, int64_t more) {
    names.push_back(name);
    bytes += more;
  }
};

struct Findings {
  /// By the axes: the number of parameters that are split with their update,
  /// and without one.
  ByText<unsigned> split, splitAlone;
  /// By the reason: the tensors that stay whole.
  ByText<Names> wholeUpdates, wholeSums, wholeParameters;
  /// Tensors that do not divide, and their bytes of padding.
  Names padded;
};

struct ShardUpdates : sharding::impl::ShardUpdatesBase<ShardUpdates> {
  using ShardUpdatesBase::ShardUpdatesBase;

  void runOnOperation() override {
    if (!getOperation().isDeclaration() && failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(func::FuncOp step);
  LogicalResult splitUpdates(func::FuncOp step, ParameterGathers *gathers);
  LogicalResult splitOthers(func::FuncOp step, ParameterGathers &gathers);
  FailureOr<SmallVector<AxisRef>> getAxes(func::FuncOp step, LayoutAttr layout,
                                          ArrayRef<AxisRef> given);
  LogicalResult checkOptions(func::FuncOp step);
  void report(func::FuncOp step);

  Findings found;
};
} // namespace

/// "data: each device keeps one of 2 parts".
static std::string nameParts(MeshAttr mesh, ArrayRef<AxisRef> axes) {
  return describe(mesh, axes) + ": each device keeps one of " +
         std::to_string(product(axes)) + " parts";
}

/// The axes over which to split a tensor of this layout: those of the option,
/// or else `given`, without those that the layout uses.
FailureOr<SmallVector<AxisRef>> ShardUpdates::getAxes(func::FuncOp step,
                                                      LayoutAttr layout,
                                                      ArrayRef<AxisRef> given) {
  SmallVector<AxisRef> result;
  auto add = [&](AxisRef ref) {
    if (ref.size > 1 && !overlap(layout.getUsedAxes(), ref))
      result.push_back(ref);
  };
  if (axes.empty())
    llvm::for_each(given, add);
  MeshAttr mesh = layout.getMesh();
  for (StringRef name : splitAxes(axes)) {
    auto names = mesh.getAxisNames();
    auto found = llvm::find(names, name);
    if (found == names.end()) {
      step.emitError("--zero-axis: ") << cost::explainMissingAxis(mesh, name);
      return failure();
    }
    auto axis = static_cast<int32_t>(found - names.begin());
    add({axis, 1, mesh.getAxisSizes()[axis]});
  }
  return result;
}

LogicalResult ShardUpdates::splitUpdates(func::FuncOp step,
                                         ParameterGathers *gathers) {
  FailureOr<UpdateOps> ops = findUpdates(step);
  if (failed(ops))
    return failure();
  llvm::DenseSet<Operation *> shared(ops->shared.begin(), ops->shared.end());
  graph::Boundary boundary(step);
  MeshAttr mesh;
  for (Update &update : ops->updates) {
    RankedTensorType type = typeOf(update.parameter);
    std::string name = boundary.getName(update.parameter.getArgNumber());
    FailureOr<SmallVector<AxisRef>> axes =
        getAxes(step, getLayout(type),
                layoutOf(getSource(update.gradient)).getPartialAxes());
    if (failed(axes))
      return failure();
    if (axes->empty() || getLocalElements(type) < threshold)
      continue;
    UpdateSplitter splitter(step, update, shared, *axes, stage);
    if (WhyWhole reason = splitter.choose(); !reason.empty()) {
      int64_t bytes = gathers ? getLocalBytes(type) : 0;
      for (auto [argument, number] : ArrayRef(update.boundary).drop_front())
        bytes += getLocalBytes(typeOf(step.getArgument(argument)));
      found.wholeUpdates[reason].add(name, bytes);
      continue;
    }
    if (stage >= 2 && accumulate == "parts")
      if (WhyWhole reason = splitter.splitSum(); !reason.empty())
        found.wholeSums[reason].add(name, getLocalBytes(type));
    mesh = getLayout(type).getMesh();
    ++found.split[nameParts(mesh, *axes)];
    if (int64_t excess = splitter.getExcessBytes(gathers); excess > 0)
      found.padded.add(name, excess);
    splitter.rewrite(gathers);
  }
  if (!mesh)
    return success();
  return layOutAgain(ops->shared, mesh,
                     "each device updates its part (--zero " +
                         std::to_string(stage) + ")");
}

/// Splits parameters that the step does not change, and those of a function
/// that trains none, over the axes that split the inputs.
LogicalResult ShardUpdates::splitOthers(func::FuncOp step,
                                        ParameterGathers &gathers) {
  graph::Boundary boundary(step);
  SmallVector<AxisRef> batch;
  for (BlockArgument argument : step.getArguments())
    if (boundary.getArgument<graph::InputAttr>(argument.getArgNumber()))
      for (DimAttr dim : layoutOf(argument).getDims())
        for (AxisRef ref : dim.getAxes())
          if (!overlap(batch, ref))
            batch.push_back(ref);
  Operation *terminator = step.getBody().front().getTerminator();
  for (BlockArgument argument : step.getArguments()) {
    unsigned number = argument.getArgNumber();
    RankedTensorType type = typeOf(argument);
    std::optional<unsigned> next = boundary.getNext(number);
    if (!boundary.getArgument<graph::ParameterAttr>(number) ||
        (next && terminator->getOperand(*next) != argument))
      continue;
    FailureOr<SmallVector<AxisRef>> axes =
        getAxes(step, getLayout(type), batch);
    if (failed(axes))
      return failure();
    if (axes->empty() || getLocalElements(type) < threshold)
      continue;
    MeshAttr mesh = getLayout(type).getMesh();
    TensorParts parts(type, *axes);
    std::string name = boundary.getName(number);
    parts.setWhy("each device over " + describe(mesh, *axes) +
                     " keeps its part (--zero 3)",
                 "parameter '" + name + "'");
    WhyWhole reason = parts.choose([&]() -> WhyWhole {
      return isStoredAsRow(boundary, argument) ? ""
                                               : "it does not lie in the file";
    });
    if (!reason.empty()) {
      found.wholeParameters[reason].add(name, getLocalBytes(type));
      continue;
    }
    ++found.splitAlone[nameParts(mesh, *axes)];
    if (parts.getExcess() > 0)
      found.padded.add(name,
                       parts.getExcess() * type.getElementTypeBitWidth() / 8);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : argument.getUses())
      if (use.getOwner() != terminator)
        uses.push_back(&use);
    argument.setType(parts.getStoredType(type.getElementType()));
    if (parts.isRow()) {
      DenseI64ArrayAttr view = boundary.getView(number);
      boundary.setView(number, {view ? view[0] : 0, 1});
    }
    gathers.gather(argument, parts, uses);
  }
  return success();
}

LogicalResult ShardUpdates::checkOptions(func::FuncOp step) {
  if (accumulate != "parts" && accumulate != "full")
    return step.emitError("--zero-accumulate ")
           << accumulate << ": there are parts and full";
  StringRef pipe = pipeline::getAxis(step->getParentOfType<ModuleOp>());
  if (!pipe.empty() && llvm::is_contained(splitAxes(axes), pipe))
    return emitError(step->getParentOfType<ModuleOp>().getLoc())
           << "--zero-axis: the stages of the pipeline lie along '" << pipe
           << "', which splits no dim; name others";
  return success();
}

void ShardUpdates::report(func::FuncOp step) {
  for (auto &[parts, count] : found.split)
    step.emitRemark() << "the updates of " << count
                      << (count == 1 ? " parameter are" : " parameters are")
                      << " split over " << parts << " of their optimizer state"
                      << (stage >= 3   ? ", their gradients and themselves"
                          : stage >= 2 ? " and gradients"
                                       : "")
                      << " (--zero 0 keeps all)";
  for (auto &[parts, count] : found.splitAlone)
    step.emitRemark() << count
                      << (count == 1 ? " parameter that is not trained is"
                                     : " parameters that are not trained are")
                      << " split over " << parts
                      << (count == 1 ? " of it" : " of them");
  if (!found.padded.names.empty())
    step.emitRemark() << "the parts of " << groupNames(found.padded.names)
                      << " are padded, since nothing of them divides; that "
                         "takes "
                      << found.padded.bytes << " bytes more on all devices";
  for (auto &[reason, entry] : found.wholeUpdates)
    step.emitRemark() << "each device updates " << groupNames(entry.names)
                      << " whole, and keeps " << entry.bytes << " bytes of "
                      << (stage >= 3 ? "parameters and optimizer state: "
                                     : "optimizer state: ")
                      << reason;
  for (auto &[reason, entry] : found.wholeSums)
    step.emitRemark() << "each device adds up the gradients of "
                      << groupNames(entry.names) << " whole, in " << entry.bytes
                      << " bytes: " << reason;
  for (auto &[reason, entry] : found.wholeParameters)
    step.emitRemark() << "each device keeps " << groupNames(entry.names)
                      << " whole, in " << entry.bytes << " bytes: " << reason;
}

LogicalResult ShardUpdates::run(func::FuncOp step) {
  if (failed(checkOptions(step)))
    return failure();
  found = {};
  for (auto gradient : step.getBody().front().getOps<graph::GradientOp>())
    if (graph::ConvertOp narrowing = getNarrowing(gradient);
        narrowing && !layoutOf(narrowing.getInput()).isPartial())
      widenGradient(gradient);
  if (stage > 0) {
    std::optional<ParameterGathers> gathers;
    if (stage >= 3) {
      FailureOr<GatherPolicy> policy =
          GatherPolicy::parse(gatherWhen, [&] { return step.emitError(); });
      if (failed(policy))
        return failure();
      gathers.emplace(step, *std::move(policy));
    }
    if (failed(splitUpdates(step, gathers ? &*gathers : nullptr)) ||
        (gathers && (failed(splitOthers(step, *gathers)) ||
                     failed(gathers->checkPatterns()))))
      return failure();
    report(step);
  }
  for (auto gradient : llvm::make_early_inc_range(
           step.getBody().front().getOps<graph::GradientOp>())) {
    gradient.getResult().replaceAllUsesWith(gradient.getInput());
    gradient.erase();
  }
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(step.getBody().front())))
    if (isa<ReshardOp>(op) && op.use_empty())
      op.erase();
  step.setType(FunctionType::get(
      step.getContext(), step.getBody().getArgumentTypes(),
      step.getBody().front().getTerminator()->getOperandTypes()));
  return success();
}
