// Finds options that change nothing, by one rule per option.

#include "compiler/driver/IdleOptions.h"

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/BatchAxes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Reason.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

/// Returns true if a collective's reason is --zero.
static bool isForZero(sharding::MovementOp op) {
  auto says = [](const sharding::Reason &reason) {
    return StringRef(reason.constraint).contains("(--zero ");
  };
  sharding::Reason why(op.getWhy().value_or(sharding::ReasonAttr()));
  return says(why) || llvm::any_of(why.members, [&](sharding::ReasonAttr each) {
           return says(sharding::Reason(each));
         });
}

StepHoldings StepHoldings::of(func::FuncOp step, const Options &options) {
  StepHoldings result;
  auto module = step->getParentOfType<ModuleOp>();
  sharding::MeshAttr mesh = sharding::getMesh(module);
  result.ranks = mesh.getNumDevices();
  result.replicated = sharding::findReplicated(step);
  std::optional<pipeline::Stages> stages = pipeline::getStages(module);
  if (stages) {
    result.pipeAxis = stages->axis.str();
    result.flopsAlongPipe.resize(
        mesh.getAxisSizes()[mesh.lookup(stages->axis)]);
  }
  step.walk([&](Operation *op) {
    if (auto movement = dyn_cast<sharding::MovementOp>(op);
        movement && movement.getCollectiveKind()) {
      ++result.collectives;
      result.zeroCollectives += isForZero(movement);
    }
    result.hasAttention |= isa<graph::AttentionOp, graph::AttentionGradOp>(op);
    auto convert = dyn_cast<graph::ConvertOp>(op);
    result.roundsGradients |= convert && convert.getParts();
    result.hasNarrowFloats |= llvm::any_of(op->getResultTypes(), [](Type type) {
      return graph::isNarrow(getElementTypeOrSelf(type));
    });
    auto stage = graph::getStage(op);
    if (auto work = dyn_cast<graph::GraphOp>(op);
        work && stages && stage && !graph::isInScan(op))
      result.flopsAlongPipe[stages->coordinates[*stage]] +=
          work.getCost().flops * cost::getExecutions(op);
  });
  graph::Boundary boundary(step);
  SmallVector<StringRef> batchAxes =
      sharding::getBatchAxisNames(options.strategy.batchAxes);
  for (StringRef name : batchAxes)
    if (int32_t axis = mesh.lookup(name); axis >= 0)
      result.batchRanks *= mesh.getAxisSizes()[axis];
  for (BlockArgument argument : step.getArguments()) {
    unsigned number = argument.getArgNumber();
    sharding::LayoutAttr layout = sharding::getLayout(argument);
    if (!layout)
      continue;
    if (boundary.getArgument<graph::InputAttr>(number))
      for (sharding::AxisRef ref : layout.getUsedAxes())
        result.splitsBatch |= llvm::is_contained(
            batchAxes, mesh.getAxisNames()[ref.axis].getValue());
    int64_t elements = graph::numElements(layout.getLocalShape(
        cast<RankedTensorType>(argument.getType()).getShape()));
    // Stage 3 also splits parameters that are not trained.
    bool mayBeSplit = boundary.getArgument<graph::ParameterAttr>(number) &&
                      (options.strategy.zero == 3 || boundary.getNext(number));
    if (mayBeSplit && elements > result.largestElements) {
      result.largestElements = elements;
      result.largestParameter = boundary.getName(number);
    }
  }
  return result;
}

namespace {

/// The reason why an option changes nothing; empty if it has an effect.
using Reason = std::string;

struct Rule {
  const char *option;
  Reason (*explain)(const Options &, const StepHoldings &);
};

Reason noRankCommunicates(const Options &, const StepHoldings &step) {
  if (step.ranks == 1)
    return "there is one rank, which communicates with no other";
  return step.collectives || !step.pipeAxis.empty()
             ? ""
             : "no rank of this plan sends anything";
}

Reason nothingIsReduced(const Options &, const StepHoldings &step) {
  return step.collectives ? "" : "no rank of this plan reduces or gathers";
}

Reason zeroSplitsNothing(const Options &options, const StepHoldings &step) {
  if (options.strategy.zero == 0)
    return "--zero 0 keeps all whole";
  if (step.zeroCollectives)
    return "";
  if (step.ranks == 1)
    return "there is one rank, which keeps all; --mesh data=2 has two";
  if (options.forward && options.strategy.zero < 3)
    return "a forward plan updates no parameter; --zero 3 splits the "
           "parameters "
           "themselves";
  if (step.largestElements > 0 &&
      step.largestElements < options.strategy.zeroThreshold)
    return llvm::formatv("'{0}', the largest parameter of a rank, has {1} "
                         "elements, and --zero-threshold {2} leaves it whole; "
                         "--zero-threshold {1} splits it",
                         step.largestParameter, step.largestElements,
                         options.strategy.zeroThreshold);
  return llvm::formatv(
      "of the parameters of {0} elements and more none is there "
      "twice, or can be split",
      options.strategy.zeroThreshold);
}

Reason stageTwoIsStageOne(const Options &options, const StepHoldings &step) {
  if (options.strategy.zero != 2 || options.strategy.microbatches > 1 ||
      options.forward)
    return zeroSplitsNothing(options, step);
  return "with one microbatch --zero 2 is --zero 1: there is no sum of "
         "gradients "
         "to split; give --microbatches more, or --zero 3";
}

Reason thereIsNoSum(const Options &options, const StepHoldings &step) {
  return options.strategy.microbatches > 1
             ? zeroSplitsNothing(options, step)
             : "with one microbatch there is no sum of gradients";
}

Reason nothingIsGathered(const Options &options, const StepHoldings &step) {
  return options.strategy.zero == 3
             ? zeroSplitsNothing(options, step)
             : llvm::formatv("--zero {0} gathers no parameters "
                             "where they are used; --zero 3 does",
                             options.strategy.zero)
                   .str();
}

Reason stagesRunOneByOne(const Options &options, const StepHoldings &step) {
  bool setsChunks = llvm::is_contained({"interleaved", "zero-bubble-v"},
                                       options.strategy.schedule);
  return step.pipeAxis.empty() || options.strategy.microbatches > 1 ||
                 setsChunks
             ? ""
             : "with one microbatch the stages run one after the other in any "
               "order; give --microbatches more";
}

Reason inputsHaveLayouts(const Options &, const StepHoldings &step) {
  return step.splitsBatch || step.batchRanks == 1
             ? ""
             : "none of these axes splits an input: --shard lays "
               "out all that have a batch";
}

Reason thereIsNoAttention(const Options &, const StepHoldings &step) {
  return step.hasAttention ? ""
                           : "no attention of the step is one op: --describe "
                             "says which of the "
                             "model is, and a note which are in parts because "
                             "of their layouts";
}

Reason noProductIsLow(const Options &options, const StepHoldings &step) {
  if (step.hasNarrowFloats || options.strategy.precision == "fp32")
    return "";
  return options.strategy.fp32.empty()
             ? "the step has no product, convolution or attention of f32"
             : "--fp32 names the modules of all products, convolutions and "
               "attentions";
}

Reason noGradientIsSent(const Options &options, const StepHoldings &step) {
  return step.roundsGradients || options.strategy.reduceDtype == "fp32"
             ? ""
             : "no rank of this plan adds up gradients of parameters with "
               "others";
}

Reason scalesAreExact(const Options &options, const StepHoldings &step) {
  bool adapts = StringRef(options.lossScale).trim().starts_with("dynamic");
  return adapts || step.hasNarrowFloats
             ? ""
             : "no value of the step is narrower than f32, in which a power of "
               "two changes no bit of a gradient";
}

constexpr Rule rules[] = {{"precision", noProductIsLow},
                          {"reduce-dtype", noGradientIsSent},
                          {"attention", thereIsNoAttention},
                          {"loss-scale", scalesAreExact},
                          {"zero", stageTwoIsStageOne},
                          {"zero-axis", zeroSplitsNothing},
                          {"zero-threshold", zeroSplitsNothing},
                          {"zero-accumulate", thereIsNoSum},
                          {"zero-gather", zeroSplitsNothing},
                          {"prefetch", nothingIsGathered},
                          {"bucket-mb", nothingIsReduced},
                          {"recompute-gathers", nothingIsReduced},
                          {"overlap", noRankCommunicates},
                          {"link", noRankCommunicates},
                          {"rates", noRankCommunicates},
                          {"schedule", stagesRunOneByOne},
                          {"batch-axes", inputsHaveLayouts}};

} // namespace

/// "12.5 %"
static std::string percentText(double share) {
  return llvm::formatv("{0:F1} %", 100 * share);
}

/// Reports stages that run one after the other, or that have unequal work.
static void findIdleStages(const Options &options, const StepHoldings &step,
                           std::vector<std::string> &found) {
  auto ranks = static_cast<int64_t>(step.flopsAlongPipe.size());
  if (ranks < 2)
    return;
  std::string axis = step.pipeAxis + "=" + std::to_string(ranks);
  if (options.strategy.microbatches == 1)
    found.push_back(
        "the stages of " + axis +
        " run one after the other, so that each of its ranks stands " +
        percentText(1 - 1.0 / static_cast<double>(ranks)) +
        " of the time, if they take as long: a step has one microbatch" +
        (options.forward
             ? ", as all forward plans; a pipeline gives it memory and no speed"
             : "; give --microbatches " + std::to_string(4 * ranks)));
  int64_t all = 0, most = 0;
  for (int64_t flops : step.flopsAlongPipe) {
    all += flops;
    most = std::max(most, flops);
  }
  // The number of ranks that the work could fill, each as slow as the slowest.
  int64_t useful = most ? (all + most - 1) / most : ranks;
  if (2 * useful <= ranks)
    found.push_back(llvm::formatv(
        "one rank of {0} has {1} of a step's FLOPs, so that all {2} take no "
        "less "
        "time than {3} would; {4}={3} leaves the others to another axis",
        axis, percentText(static_cast<double>(most) / static_cast<double>(all)),
        ranks, useful, step.pipeAxis));
}

std::vector<std::string> polyrank::driver::findIdle(const Options &options,
                                                    const StepHoldings &step) {
  // By reason, so that options with the same reason share one line.
  llvm::MapVector<Reason, std::vector<std::string>, std::map<Reason, unsigned>>
      idle;
  for (const Rule &rule : rules) {
    if (!options.given.count(rule.option))
      continue;
    // A value of 0 asks for no ZeRO stage, or for no prefetching.
    bool asksNothing =
        (StringRef(rule.option) == "zero" && options.strategy.zero == 0) ||
        (StringRef(rule.option) == "prefetch" &&
         options.strategy.prefetch == 0);
    if (Reason reason = rule.explain(options, step);
        !reason.empty() && !asksNothing)
      idle[reason].push_back(std::string("--") + rule.option);
  }
  std::vector<std::string> found;
  for (auto &[reason, names] : idle)
    found.push_back(llvm::join(names, ", ") +
                    (names.size() == 1 ? " changes" : " change") +
                    " nothing: " + reason);
  findIdleStages(options, step, found);
  for (const sharding::Replicated &each : step.replicated)
    found.push_back(
        each.ops + ", " + percentText(each.share) +
        " of the step's FLOPs, is computed whole by every rank of " +
        each.axis + ": no constraint reaches it" +
        (each.parameters.empty()
             ? ""
             : "; constrain '" + each.parameters + "' to split it"));
  return found;
}
