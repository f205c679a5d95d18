// Lays the step out without stages, and adds up what each op of @forward costs.

#include "compiler/driver/CutLayouts.h"

#include "compiler/cost/KernelTimes.h"
#include "compiler/cost/OpTime.h"
#include "compiler/driver/Stages.h"
#include "compiler/stages/LaidOutCosts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

namespace {

/// The step without stages, whose ops have the numbers of the ops of @forward
/// as `graph.stage`: each op is a stage of its own.
class UncutStep {
public:
  UncutStep(ModuleOp module, const Options &options, sharding::MeshAttr mesh);

  /// Fails, with the reason in `problem`, if the step cannot be laid out.
  LogicalResult layOut(std::string &problem);
  void writeCosts(ModuleOp module);

private:
  struct Found {
    double time = 0;
    int64_t kept = 0;
    /// The bytes of each result in its smallest layout, by its number of
    /// elements; a reduction may come some ops after the op itself.
    llvm::SmallDenseMap<int64_t, int64_t> bytes;
  };
  void number(ModuleOp uncut);
  void addOp(Operation &op);
  void addKept(Operation &op);
  std::optional<int64_t> numberOf(Operation *op);
  void writeOps(func::FuncOp forward);
  void writeParameters(ModuleOp module);

  Options options;
  sharding::MeshAttr mesh;
  OwningOpRef<ModuleOp> uncut;
  std::optional<cost::Machine> machine;
  std::optional<cost::CostModel> model;
  llvm::DenseMap<Operation *, double> times;
  std::vector<Found> found;
  llvm::DenseMap<Operation *, int64_t> inherited;
};

} // namespace

/// The same machine without the link along an axis.
static rank::MachineAttr without(StringRef axis, rank::MachineAttr machine) {
  auto links = llvm::to_vector(machine.getLinks());
  llvm::erase_if(links, [&](rank::LinkAttr link) {
    return link.getAxis().getValue() == axis;
  });
  std::optional<double> bandwidth;
  if (FloatAttr stated = machine.getBandwidth())
    bandwidth = stated.getValueAsDouble();
  return rank::MachineAttr::get(machine.getContext(), machine.getTarget(),
                                machine.getThreads(), links, machine.getRates(),
                                bandwidth, machine.getMemory());
}

UncutStep::UncutStep(ModuleOp module, const Options &given,
                     sharding::MeshAttr whole)
    : options(given), uncut(cast<ModuleOp>(module->clone())) {
  strategy::MeshAxes axes = options.strategy.mesh;
  StringRef pipe =
      whole.getAxisNames()[*options.strategy.findPipeAxis(whole)].getValue();
  llvm::erase_if(
      axes, [&](const strategy::MeshAxis &axis) { return axis.name == pipe; });
  options.strategy = options.strategy.on(axes);
  options.strategy.pipeAxis.clear();
  options.strategy.stages.clear();
  options.strategy.stagePatterns.clear();
  options.strategy.schedule.clear();
  options.strategy.chunks = 0;
  options.strategy.bucketMegabytes = "0";
  mesh = strategy::toAttribute(*module.getContext(), axes);
  sharding::setMesh(*uncut, mesh);
  (*uncut)->setAttr(rank::machineAttrName,
                    without(pipe, rank::getMachine(module)));
  number(*uncut);
}

/// Gives each op its number as metadata of its location, which the ops of its
/// backward get from it.
void UncutStep::number(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  Builder builder(module.getContext());
  for (auto [i, op] : llvm::enumerate(forward.getBody().front()))
    op.setLoc(FusedLoc::get({op.getLoc()},
                            builder.getI64IntegerAttr(static_cast<int64_t>(i)),
                            builder.getContext()));
  found.resize(forward.getBody().front().getOperations().size());
}

/// The number that a location has.
static std::optional<int64_t> findNumber(Location location) {
  auto fused = location->findInstanceOf<FusedLocWith<IntegerAttr>>();
  return fused ? std::optional(fused.getMetadata().getInt()) : std::nullopt;
}

LogicalResult UncutStep::layOut(std::string &problem) {
  ScopedDiagnosticHandler handler(
      uncut->getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
            problem.empty())
          problem = diagnostic.str();
        return success();
      });
  PassManager training(uncut->getContext());
  training.enableVerifier(false);
  addDifferentiation(training, options, mesh);
  if (failed(training.run(*uncut)))
    return failure();
  auto step = uncut->lookupSymbol<func::FuncOp>("step");
  step.walk([](Operation *op) { // passes from here on copy what ops have
    graph::setStage(op, findNumber(op->getLoc()));
  });
  PassManager partition(uncut->getContext());
  partition.enableVerifier(false);
  addPropagation(partition, options);
  addPartition(partition, options);
  return partition.run(*uncut);
}

/// The number of an op, which an op that passes have built without may have
/// from its operands.
std::optional<int64_t> UncutStep::numberOf(Operation *op) {
  if (auto stage = graph::getStage(op))
    return stage;
  if (auto known = inherited.find(op); known != inherited.end())
    return known->second;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      if (auto stage = numberOf(producer)) {
        inherited[op] = *stage;
        return stage;
      }
  return std::nullopt;
}

static bool isOfForward(Operation *op) {
  return graph::getMarkedPhase(op).value_or(graph::Phase::Forward) ==
         graph::Phase::Forward;
}

void UncutStep::addOp(Operation &op) {
  std::optional<int64_t> number = numberOf(&op);
  if (!number || graph::getMarkedPhase(&op) == graph::Phase::Update)
    return;
  found[*number].time += times.lookup(&op);
  if (!isOfForward(&op))
    return;
  for (Type type : op.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    auto [bytes, isNew] = found[*number].bytes.try_emplace(
        tensor.getNumElements(), cost::getLocalBytes(tensor));
    if (!isNew)
      bytes->second = std::min(bytes->second, cost::getLocalBytes(tensor));
  }
  addKept(op);
}

/// Adds the results that the backward reads; a reshape of a value is the value.
void UncutStep::addKept(Operation &op) {
  if (cost::isFree(&op))
    return;
  for (Value result : op.getResults()) {
    SmallVector<Value> names{result};
    bool isKept = false;
    while (!names.empty() && !isKept) {
      Value name = names.pop_back_val();
      for (Operation *user : name.getUsers())
        if (!isOfForward(user))
          isKept = true;
        else if (isa<graph::ReshapeOp>(user))
          names.push_back(user->getResult(0));
    }
    if (isKept)
      found[*numberOf(&op)].kept +=
          cost::getLocalBytes(cast<RankedTensorType>(result.getType()));
  }
}

void UncutStep::writeCosts(ModuleOp module) {
  auto step = uncut->lookupSymbol<func::FuncOp>("step");
  machine = *cost::Machine::of(step);
  model = machine->getModel(mesh);
  // What is computed once a step is no part of a microbatch.
  Block *body = &step.getBody().front();
  for (auto loop : step.getOps<graph::MicrobatchesOp>())
    body = &loop->getRegion(0).front();
  times = cost::getKernelTimes(*body, *machine, &*model);
  for (Operation &op : body->without_terminator())
    addOp(op);
  writeOps(module.lookupSymbol<func::FuncOp>("forward"));
  writeParameters(module);
}

void UncutStep::writeOps(func::FuncOp forward) {
  // The share of a value that a device has, where no op of the step makes one
  // of its size: that of the operand from which it is made.
  llvm::DenseMap<Value, double> shares;
  for (auto [i, op] : llvm::enumerate(forward.getBody().front())) {
    if (op.getNumResults() == 0)
      continue;
    stages::LaidOutCost cost;
    cost.time = static_cast<int64_t>(found[i].time);
    cost.kept = found[i].kept;
    double share = 1;
    for (Value operand : op.getOperands())
      if (auto known = shares.find(operand); known != shares.end())
        share = std::min(share, known->second);
    for (Value result : op.getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      int64_t whole = cost::getLocalBytes(type), bytes;
      if (auto known = found[i].bytes.find(type.getNumElements());
          known != found[i].bytes.end())
        bytes = known->second;
      else
        bytes = static_cast<int64_t>(share * static_cast<double>(whole));
      shares[result] = static_cast<double>(bytes) / static_cast<double>(whole);
      cost.bytes += bytes;
    }
    stages::setLaidOutCost(&op, cost);
  }
}

void UncutStep::writeParameters(ModuleOp module) {
  auto step = uncut->lookupSymbol<func::FuncOp>("step");
  graph::Boundary boundary(step);
  struct Bytes {
    int64_t value = 0, states = 0, largest = 0;
  };
  llvm::DenseMap<Attribute, Bytes> memory;
  for (BlockArgument argument : step.getArguments()) {
    FlatSymbolRefAttr symbol = boundary.getParameter(argument.getArgNumber());
    if (!symbol)
      continue;
    int64_t bytes =
        cost::getLocalBytes(cast<RankedTensorType>(argument.getType()));
    Bytes &entry = memory[symbol];
    if (boundary.getArgument<graph::ParameterAttr>(argument.getArgNumber())) {
      entry.value = bytes;
    } else {
      entry.states += bytes;
      entry.largest = std::max(entry.largest, bytes);
    }
  }
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto known = memory.find(FlatSymbolRefAttr::get(parameter));
    if (known == memory.end())
      continue;
    const Bytes &bytes = known->second;
    bool isTrained = parameter.getTrainable() && !options.forward;
    // From stage 2 of ZeRO on a gradient lies as the optimizer's state does.
    int64_t gradient = !isTrained ? 0
                       : options.strategy.zero >= 2 && bytes.largest > 0
                           ? std::min(bytes.value, bytes.largest)
                           : bytes.value;
    stages::setLaidOutMemory(parameter, {bytes.value + gradient, bytes.states});
  }
}

std::string polyrank::driver::layOutForCut(ModuleOp module,
                                           const Options &options,
                                           sharding::MeshAttr mesh) {
  UncutStep step(module, options, mesh);
  std::string problem;
  if (succeeded(step.layOut(problem)))
    step.writeCosts(module);
  else if (problem.empty())
    problem = "its passes fail";
  return problem;
}
