// Checks the properties that hold for every program, from the model to the
// programs of its ranks.

#include "test/random/Check.h"

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/Passes.h"
#include "compiler/lowering/Passes.h"
#include "compiler/overlap/Passes.h"
#include "compiler/sharding/Passes.h"
#include "compiler/stages/Passes.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "test/random/Narrow.h"
#include "test/random/Stages.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::Tensor;

std::string polyrank::test::atWork;

// The distributed evaluation also computes the global one, compares after each
// op, and returns it, so no other evaluation is needed.

/// When a composite is decomposed, constants of its parts are in f32.
constexpr double partsTolerance = 1e-5;

static func::FuncOp functionOf(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  return step ? step : module.lookupSymbol<func::FuncOp>("forward");
}

/// Returns what is evaluated: that function, or those of the ranks at different
/// places.
static evaluate::JointFunction jointOf(ModuleOp module) {
  auto all = evaluate::JointFunction::allOf(module);
  if (succeeded(all) && !all->empty() && all->back().isPlaced())
    return all->back();
  return functionOf(module);
}

bool Checker::fail(const Twine &message) {
  if (!failure) {
    failure.emplace();
    failure->stage = stage;
    failure->message = message.str();
    if (!diagnostics.empty())
      failure->message += (failure->message.empty() ? "" : ": ") + diagnostics;
  }
  return false;
}

bool Checker::runPass(ModuleOp module, StringRef name,
                      std::unique_ptr<Pass> pass, bool onFunctions) {
  stage = name.str();
  atWork = "seed " + std::to_string(seed) + ", " + stage;
  PassManager manager(module.getContext());
  // Programs that are only drawn are many, and others verify the like.
  manager.enableVerifier(!onlyDraws);
  if (onFunctions)
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  else
    manager.addPass(std::move(pass));
  return succeeded(manager.run(module)) || fail("the pass failed");
}

bool Checker::compare(ModuleOp module, Mode mode,
                      std::optional<uint64_t> draw) {
  if (mode == Arena && isForGpus)
    return true;
  const char *const names[] = {"global", "distributed", "ranks", "arena"};
  std::string pass = stage;
  stage += std::string(" ") + names[mode];
  atWork = "seed " + std::to_string(seed) + ", " + stage;
  evaluate::JointFunction joint = jointOf(module);
  func::FuncOp function = joint.getFunctions().front();
  SmallVector<Tensor> arguments = drawArguments(joint, seed);
  FailureOr<SmallVector<Tensor>> results =
      mode == Global ? evaluate::evaluateGlobal(function, arguments, rounding)
      : mode == Distributed
          ? evaluate::evaluateDistributed(function, arguments, seed)
      : mode == Ranks
          ? evaluate::evaluateRanks(joint, arguments, seed, rounding)
          : evaluate::evaluateArena(joint, arguments, draw.value_or(seed));
  if (failed(results))
    return fail("the evaluation failed");
  if (reference.empty())
    reference = *results;
  if (reference.size() != results->size())
    return fail("there are " + Twine(results->size()) + " results, not " +
                Twine(reference.size()));
  for (auto [i, result] : llvm::enumerate(*results)) {
    // State whose update is split may be kept as a row.
    if (result.getRank() == 1 && result.size() == reference[i].size())
      reference[i] = reference[i].reshaped(result.shape);
    std::string reason;
    if (!evaluate::agree(result, reference[i], reason, tolerance))
      return fail("result " + Twine(i) + ": " + reason);
  }
  stage = pass;
  return true;
}

bool Checker::compareRounded(ModuleOp whole, ModuleOp lowered) {
  if (!hasNarrowFloats(whole))
    return true;
  SmallVector<Tensor> exact = std::exchange(reference, {});
  double exactTolerance = std::exchange(
      tolerance,
      evaluate::getRoundingTolerance(whole, graph::Rounding::OfTypes));
  rounding = graph::Rounding::OfTypes;
  bool agrees = compare(whole, Global) && compare(lowered, Ranks);
  rounding = graph::Rounding::Exact;
  tolerance = exactTolerance;
  reference = std::move(exact);
  return agrees;
}

bool Checker::runModel(ModuleOp module) {
  reference.clear();
  tolerance = evaluate::getRoundingTolerance(module, evaluate::Rounding::Exact);
  stage = "model";
  if (!compare(module, Global))
    return false;
  return runPass(module, "raise-composites",
                 training::createRaiseCompositesPass()) &&
         compare(module, Global) &&
         runPass(module, "unflatten", training::createUnflattenPass()) &&
         compare(module, Global) &&
         runPass(module, "find-logical-parameters",
                 training::createFindLogicalParametersPass()) &&
         compare(module, Global) && runPass(module, "cse", createCSEPass()) &&
         compare(module, Global);
}

/// The layouts of each op's results, by its location, in any order.
static std::multimap<std::string, std::string> layoutsOf(ModuleOp module) {
  std::multimap<std::string, std::string> layouts;
  module.walk([&](graph::GraphOp op) {
    if (graph::isInScan(op))
      return;
    std::string where, what;
    llvm::raw_string_ostream(where) << op->getLoc();
    for (Value result : op->getResults())
      what += sharding::getLayout(result).toString() + " ";
    layouts.emplace(where, what);
  });
  return layouts;
}

bool Checker::checkShuffled(ModuleOp constrained, ModuleOp propagated) {
  OwningOpRef<ModuleOp> shuffled(constrained.clone());
  evaluate::ShuffleOpsPassOptions options;
  options.seed = seed;
  if (!runPass(*shuffled, "shuffle-ops",
               evaluate::createShuffleOpsPass(options)) ||
      !runPass(*shuffled, "shuffled propagate-layouts",
               sharding::createPropagateLayouts(), true))
    return false;
  auto expected = layoutsOf(propagated), found = layoutsOf(*shuffled);
  auto sorted = [](std::multimap<std::string, std::string> &map) {
    std::vector<std::pair<std::string, std::string>> list(map.begin(),
                                                          map.end());
    llvm::sort(list);
    return list;
  };
  auto left = sorted(expected), right = sorted(found);
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    if (left[i] != right[i])
      return fail(left[i].first + " has " + left[i].second +
                  ", and with its ops in another order " + right[i].first +
                  " has " + right[i].second);
  return left.size() == right.size() || fail("there are other ops");
}

bool Checker::runConstraints(ModuleOp module) {
  reference.clear();
  tolerance = evaluate::getRoundingTolerance(module, evaluate::Rounding::Exact);
  stage = "constraints";
  if (!compare(module, Global))
    return false;
  OwningOpRef<ModuleOp> before(module.clone());
  if (!runPass(module, "propagate-layouts", sharding::createPropagateLayouts(),
               true) ||
      !compare(module, Distributed) || !checkShuffled(*before, module))
    return false;
  Random random(seed ^ 0x2e40);
  // Composites that are split add in another order than whole ones.
  auto decompose = [&] {
    bool hasComposite = module
                            .walk([](Operation *op) {
                              return sharding::isMarkedComposite(op)
                                         ? WalkResult::interrupt()
                                         : WalkResult::advance();
                            })
                            .wasInterrupted();
    if (!runPass(module, "decompose-composites",
                 sharding::createDecomposeComposites(), true))
      return false;
    if (hasComposite)
      tolerance = partsTolerance;
    return compare(module, Distributed);
  };
  if (random.chance(40)) {
    sharding::RecomputeOptions again;
    again.what = random.chance(60) ? "full" : "selective";
    again.gathers = random.chance(40);
    if (!decompose() ||
        !runPass(module, "recompute", sharding::createRecompute(again), true) ||
        !compare(module, Distributed))
      return false;
  }
  sharding::ShardUpdatesOptions updates;
  updates.threshold = 1;
  updates.stage = random.pick({0, 1, 2, 3, 3});
  if (random.chance(30))
    updates.accumulate = "full";
  if (random.chance(20))
    updates.gatherWhen = "step";
  updateOptions = "threshold=1 stage=" + std::to_string(updates.stage) +
                  " accumulate=" + updates.accumulate +
                  " gather=" + updates.gatherWhen;
  return runPass(module, "mark-phases", sharding::createMarkPhases(), true) &&
         runPass(module, "shard-updates", sharding::createShardUpdates(updates),
                 true) &&
         compare(module, Distributed) && decompose();
}

/// Moves starts, waits and commands between them: what check-buffers accepts
/// must compute the same, whenever the collectives in flight are executed.
bool Checker::checkQueues(ModuleOp module) {
  Random random(seed ^ 0x9e0e);
  OwningOpRef<ModuleOp> mutated(module.clone());
  std::string what = mutateQueue(*mutated, random);
  if (what.empty())
    return true;
  bool accepted;
  {
    ScopedDiagnosticHandler quiet(mutated->getContext(),
                                  [](Diagnostic &) { return success(); });
    PassManager manager(mutated->getContext());
    manager.addPass(lowering::createCheckBuffers());
    accepted = succeeded(manager.run(*mutated));
  }
  ++(accepted ? queueMutations.equivalent : queueMutations.rejected);
  stage = "check-buffers, " + what;
  constexpr uint64_t orders = 20;
  for (uint64_t order = 0; accepted && order < orders; ++order)
    if (!compare(*mutated, Arena, seed + order))
      return false;
  return true;
}

int64_t polyrank::test::drawAhead(uint64_t seed) {
  return Random(seed ^ 0x5e95).pick({0, 0, 1, 1, 2, 3, 9});
}

lowering::AttentionKind polyrank::test::drawAttention(uint64_t seed) {
  return Random(seed ^ 0xa77e).chance(50) ? lowering::AttentionKind::Parts
                                          : lowering::AttentionKind::Fused;
}

/// How much order-commands moves depends on how fast machines are.
static void setMachine(ModuleOp module, uint64_t seed) {
  auto bandwidth =
      Random(seed ^ 0x0bde)
          .pick<std::optional<double>>({std::nullopt, 0.1, 0.01, 0.001});
  if (!bandwidth)
    return;
  MLIRContext *context = module.getContext();
  module->setAttr(rank::machineAttrName,
                  rank::MachineAttr::get(
                      context, /*target=*/{}, /*threads=*/1, /*links=*/{},
                      rank::RateAttr::get(Float32Type::get(context), 1),
                      bandwidth));
}

bool Checker::runLayouts(ModuleOp module) {
  reference.clear();
  tolerance = evaluate::getRoundingTolerance(module, evaluate::Rounding::Exact);
  stage = "layouts";
  if (!compare(module, Distributed))
    return false;
  if (!runPass(module, "plan-reshards", sharding::createPlanReshards(), true) ||
      !compare(module, Distributed))
    return false;
  if (!runPass(module, "mark-stages", stages::createMarkStages(), true) ||
      !runPass(module, "bucket-collectives",
               sharding::createBucketCollectives(
                   sharding::BucketCollectivesOptions()),
               true) ||
      !compare(module, Distributed) ||
      !runPass(module, "place-values", stages::createPlaceValues(), true) ||
      !compare(module, Distributed) ||
      !runPass(module, "check-partition", sharding::createCheckPartition(),
               true))
    return false;
  if (coverage)
    coverage->record(module);
  OwningOpRef<ModuleOp> partitioned(module.clone());
  lowering::ChooseOrdersOptions orders;
  orders.always = true;
  lowering::FormSegmentsOptions segments;
  segments.ahead = drawAhead(seed);
  if (!runPass(module, "localize", lowering::createLocalize()) ||
      !compare(module, Ranks) ||
      !runPass(module, "normalize-collectives",
               lowering::createNormalizeCollectives()) ||
      !compare(module, Ranks) ||
      !runPass(module, "choose-orders", lowering::createChooseOrders(orders)) ||
      !compare(module, Ranks) ||
      !runPass(module, "form-segments",
               lowering::createFormSegments(segments)) ||
      !compare(module, Ranks) ||
      !runPass(module, "form-loops", lowering::createFormLoops()) ||
      !compare(module, Ranks))
    return false;
  tolerance = partsTolerance;
  lowering::FormAttentionOptions attention;
  attention.attention =
      isForGpus ? lowering::AttentionKind::Parts : drawAttention(seed);
  lowering::ChooseCallsOptions calls;
  calls.measure = false;
  overlap::StartCollectivesOptions starts;
  starts.prefetch = Random(seed ^ 0x57a7).pick({0, 1, 1, 2, 5});
  setMachine(module, seed);
  if (!runPass(module, "form-attention",
               lowering::createFormAttention(attention)) ||
      !compare(module, Ranks) ||
      !runPass(module, "form-gemms", lowering::createFormGemms()) ||
      !compare(module, Ranks) ||
      !runPass(module, "form-kernels", codegen::createFormKernels()) ||
      !compare(module, Ranks) ||
      !runPass(module, "lower-kernels", codegen::createLowerKernels()) ||
      !compare(module, Ranks) || !compareRounded(*partitioned, module) ||
      !runPass(module, "choose-calls", lowering::createChooseCalls(calls)) ||
      !runPass(module, "order-commands", overlap::createOrderCommands()) ||
      !compare(module, Ranks) ||
      !runPass(module, "start-collectives",
               overlap::createStartCollectives(starts)) ||
      !compare(module, Ranks) ||
      !runPass(module, "assign-buffers", lowering::createAssignBuffers()) ||
      !compare(module, Ranks) || !compare(module, Arena) ||
      !runPass(module, "check-buffers", lowering::createCheckBuffers()) ||
      !runPass(module, "check-ranks", lowering::createCheckRanks()))
    return false;
  // Modules of several programs have mutations of their own
  // (test/compiler/lowering).
  if (!onLowered || !functionOf(module))
    return true;
  if (!checkQueues(module))
    return false;
  stage = "lowered program";
  std::string error = onLowered(module, *partitioned, current);
  return error.empty() || fail(error);
}

/// Collects errors while it lives.
static std::unique_ptr<ScopedDiagnosticHandler> collect(MLIRContext *context,
                                                        std::string &text) {
  return std::make_unique<ScopedDiagnosticHandler>(
      context, [&text](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          text += (text.empty() ? "" : "; ") + diagnostic.str();
        return success();
      });
}

std::optional<Failure> Checker::run(ModuleOp module, Start start) {
  diagnostics.clear();
  failure.reset();
  auto handler = collect(module.getContext(), diagnostics);
  if (onPart && !onPart(module, start))
    return Failure{"stopped", "", start, nullptr};
  OwningOpRef<ModuleOp> before(module.clone());
  bool passes = start == Model         ? runModel(module)
                : start == Constraints ? runConstraints(module)
                                       : runLayouts(module);
  if (passes)
    return std::nullopt;
  failure->start = start;
  failure->module = std::move(before);
  return std::move(failure);
}

/// Gives each op a location of its own, by which it is found after passes.
static void nameOps(ModuleOp module) {
  int64_t next = 0;
  module.walk([&](graph::GraphOp op) {
    auto name =
        StringAttr::get(op->getContext(), op->getName().stripDialect() + "." +
                                              std::to_string(next++));
    op->setLoc(NameLoc::get(name));
  });
}

/// Draws a learning-rate schedule, and other options for one of the parameters,
/// or neither.
static void drawGroup(ModuleOp module, Random &random,
                      training::BuildStepPassOptions &step) {
  if (random.chance(20))
    step.schedule = "cosine(warmup=3,total=9,warmup_start=0.5)";
  SmallVector<graph::ParameterOp> trained;
  for (auto parameter : module.getOps<graph::ParameterOp>())
    if (parameter.getTrainable())
      trained.push_back(parameter);
  if (trained.empty() || !random.chance(30))
    return;
  StringRef name = random.pick(trained).getSymName();
  SmallVector<std::string> options{"lr=x0.5", "lr=0.125", "weight_decay=0.25",
                                   "lr=x2, weight_decay=0", "maximize"};
  StringRef optimizer = step.optimizer;
  if (optimizer.starts_with("sgd")) // with other states
    options.push_back("momentum=0.5"), options.push_back("momentum=0.75");
  else if (optimizer.starts_with("adam"))
    options.push_back("amsgrad"), options.push_back("amsgrad=false");
  step.groups.push_back(name.str() + ": " + random.pick(options));
}

/// Draws what lower-precision does with a step: nothing, or all but some
/// modules in a low type.
static training::LowerPrecisionPassOptions drawPrecision(ModuleOp module,
                                                         Random &random) {
  training::LowerPrecisionPassOptions options;
  if (!random.chance(40))
    return options;
  options.precision = random.pick({"bf16", "fp16"});
  if (random.chance(40))
    options.reduceDtype = options.precision;
  if (!random.chance(30))
    return options;
  auto scope = StringAttr::get(module.getContext(), "kept");
  func::FuncOp step = functionOf(module);
  graph::Phases phases(step);
  step.walk([&](graph::GraphOp op) {
    if (phases.getPhase(op) == graph::Phase::Update || !random.chance(30))
      return;
    graph::setScope(op, scope);
    options.fp32 = scope.str();
  });
  return options;
}

/// Makes a norm of the gradients above zero, and not only one that is not
/// finite, skip the step, since drawn programs have finite gradients.
static void skipEveryStep(ModuleOp module) {
  module.walk([](graph::CompareOp compare) {
    auto limit = compare.getRhs().getDefiningOp<graph::ConstantOp>();
    std::optional<double> value = limit ? graph::getSplat(limit) : std::nullopt;
    if (!value || compare.getComparison() != graph::Comparison::LE ||
        *value < std::numeric_limits<float>::max())
      return;
    OpBuilder builder(compare);
    compare.getRhsMutable().assign(graph::splat(
        builder, compare.getLoc(), cast<RankedTensorType>(limit.getType()), 0));
  });
}

std::optional<Failure> Checker::runProgram(MLIRContext &context) {
  atWork = "seed " + std::to_string(seed) + ", generation";
  Program program = drawProgram(context, seed);
  current = &program;
  ModuleOp module = *program.module;
  if (coverage)
    coverage->recordModel(module);
  if (!onlyDraws)
    if (auto found = run(module, Model))
      return found;

  diagnostics.clear();
  failure.reset();
  int64_t pipe = 0;
  if (Random random(seed ^ 0x57a6); random.chance(30))
    pipe = drawStages(module, random);
  OwningOpRef<ModuleOp> before(module.clone());
  auto handler = collect(&context, diagnostics);
  training::BuildStepPassOptions step;
  step.mode = program.mode;
  step.optimizer = program.optimizer;
  step.microbatches = program.microbatches;
  // A norm of all gradients, or none; its limit is often reached.
  if (Random random(seed ^ 0xc11b);
      program.mode == "train" && random.chance(30)) {
    step.clipNorm = random.pick({0.01, 1.0, 1e6});
    step.clipNormType = random.pick({"2", "inf"});
  }
  if (Random random(seed ^ 0x6f0b); program.mode == "train")
    drawGroup(module, random, step);
  auto lowerPrecision = [&] {
    Random types(seed ^ 0x10b16);
    // For coverage layouts alone are drawn, of the same programs as ever.
    return onlyDraws || runPass(module, "lower-precision",
                                training::createLowerPrecisionPass(
                                    drawPrecision(module, types)));
  };
  bool skipsAll = false;
  if (Random random(seed ^ 0x5ca1e);
      !onlyDraws && program.mode == "train" && random.chance(25)) {
    step.lossScale = random.pick(
        {"", "1024", "0.125", "dynamic(growth=4,window=1,hysteresis=2)"});
    step.skipNonfinite = step.lossScale.empty() ||
                         (step.lossScale[0] != 'd' && random.chance(50));
    skipsAll = random.chance(40);
  }
  auto buildStep = [&] {
    if (!runPass(module, "build-step", training::createBuildStepPass(step)))
      return false;
    if (skipsAll)
      skipEveryStep(module);
    return true;
  };
  reference.clear();
  if ((pipe &&
       !runPass(module, "insert-transfers", stages::createInsertTransfers())) ||
      !buildStep() || !(onlyDraws || compare(module, Global)) ||
      !runPass(module, "canonicalize", createCanonicalizerPass()) ||
      !(onlyDraws || compare(module, Global)) ||
      !runPass(module, "cse", createCSEPass()) ||
      !(onlyDraws || compare(module, Global)) || !lowerPrecision() ||
      !(onlyDraws || compare(module, Global)) ||
      (pipe && (!runPass(module, "join-stages", stages::createJoinStages()) ||
                !(onlyDraws || compare(module, Global))))) {
    failure->start = Model;
    failure->module = std::move(before);
    return std::move(failure);
  }
  handler.reset();

  nameOps(module);
  Random random(seed ^ 0x5eed);
  RandomMesh mesh(context, random, pipe);
  if (pipe)
    sharding::setMesh(module, mesh.mesh);
  func::FuncOp function = functionOf(module);
  if (onlyDraws) {
    // About two of three programs have drawn layouts.
    if (!random.chance(35)) {
      drawLayouts(function, mesh, random);
      coverage->record(module);
    }
    return std::nullopt;
  }
  if (random.chance(35)) {
    drawConstraints(function, mesh, random);
    if (auto found = run(module, Constraints))
      return found;
  } else {
    drawLayouts(function, mesh, random);
  }
  return run(module, Layouts);
}
