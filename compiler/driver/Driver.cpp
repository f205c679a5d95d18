// Compiles a model file to a plan.

#include "compiler/driver/Driver.h"

#include "compiler/driver/Batch.h"
#include "compiler/driver/Bind.h"
#include "compiler/driver/CutLayouts.h"
#include "compiler/driver/Describe.h"
#include "compiler/driver/Frontends.h"
#include "compiler/driver/IdleOptions.h"
#include "compiler/driver/Machine.h"
#include "compiler/driver/Report.h"
#include "compiler/driver/Stages.h"
#include "compiler/driver/StepReport.h"
#include "compiler/lowering/Stage.h"
#include "compiler/plan/WritePlan.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/Why.h"
#include "compiler/target/KernelCache.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Denormals.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "support/Cores.h"
#include "support/Outputs.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

namespace {

/// One compilation: all stages of the compiler, in order.
class Compilation {
public:
  explicit Compilation(const Options &options)
      : options(options), context(getRegistry()) {
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false);
    context.printStackTraceOnDiagnostic(false);
    context.disableMultithreading();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      say(diagnostic);
      return success();
    });
  }

  LogicalResult run();
  const CompileReport &getReport() const { return report; }
  /// True if MLIR was printed and no plan was written.
  bool isStopped() const { return stopped; }

private:
  void say(Diagnostic &diagnostic);
  LogicalResult fail(const Twine &message) {
    return emitError(UnknownLoc::get(&context)) << message;
  }
  /// Runs passes, with --dump-passes, and records their times.
  LogicalResult runPasses(StringRef stage,
                          function_ref<void(OpPassManager &)> build);
  /// Returns true if the user wants to stop after this stage of the compiler;
  /// then prints the module.
  bool stopsAfter(StringRef stage);

  /// Checks the options that need no model.
  LogicalResult checkOptions();
  /// Opens the folder of --kernel-cache, or that of the environment.
  LogicalResult openKernelCache();
  /// Runs work that is no pass, and records its time.
  LogicalResult timed(StringRef stage, StringRef name,
                      function_ref<LogicalResult()> work);
  /// Emits the error that the file is no model, or else one that lists the
  /// outputs for a loss.
  LogicalResult explainMissingLoss();
  LogicalResult importModel();
  LogicalResult buildStep();
  LogicalResult partition();

  const Options &options;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  sharding::MeshAttr mesh;
  PlannedMachine machine;
  std::optional<target::KernelCache> kernels;
  CompileReport report;
  /// Why the cut knows no layouts; empty if it does.
  std::string uncutProblem;
  bool stopped = false;
  int stageNumber = 0;
};

} // namespace

void Compilation::say(Diagnostic &diagnostic) {
  const Message &message = report.messages.emplace_back(diagnostic);
  if (options.quiet && message.severity == "note")
    return;
  llvm::errs() << message.severity << ": ";
  // A note on the model as a whole does not repeat its name.
  if (!message.where.empty() &&
      (message.severity != "note" || message.where != options.model))
    llvm::errs() << "'" << message.where << "': ";
  llvm::errs() << message.text << "\n";
  for (const std::string &note : message.notes)
    llvm::errs() << "  " << note << "\n";
}

LogicalResult
Compilation::runPasses(StringRef stage,
                       function_ref<void(OpPassManager &)> build) {
  PassManager manager(&context);
  if (!options.dumpDirectory.empty())
    manager.enableIRPrintingToFileTree(
        [](Pass *, Operation *) { return false; },
        [](Pass *, Operation *) { return true; }, /*printModuleScope=*/true,
        /*printAfterOnlyOnChange=*/false, /*printAfterOnlyOnFailure=*/false,
        options.dumpDirectory + "/" + std::to_string(++stageNumber) + "-" +
            stage.str());
  manager.addInstrumentation(
      std::make_unique<PassTimer>(stage.str(), report.passes));
  build(manager);
  // Verifies once per stage of the compiler, and after each pass only if passes
  // are dumped.
  manager.enableVerifier(!options.dumpDirectory.empty());
  if (failed(manager.run(*module)))
    return failure();
  return timed(stage, "verify", [&] { return verify(*module); });
}

bool Compilation::stopsAfter(StringRef stage) {
  if (options.stopAfter != stage)
    return false;
  OpPrintingFlags flags;
  module->print(llvm::outs(), flags);
  return stopped = true;
}

LogicalResult Compilation::timed(StringRef stage, StringRef name,
                                 function_ref<LogicalResult()> work) {
  double start = now();
  LogicalResult result = work();
  report.passes.push_back(
      {stage.str(), name.str(), now() - start, failed(result)});
  return result;
}

LogicalResult Compilation::explainMissingLoss() {
  auto importOptions = readImportOptions(options);
  if (!importOptions)
    return fail(importOptions.error().message);
  auto file = describeModel(options.model, *importOptions);
  if (!file)
    return fail(file.error().message);
  std::string names;
  for (const frontends::DescribedValue &output : file->outputs)
    names += (names.empty() ? "" : ", ") + output.name;
  return fail(
      "training needs a loss: --loss 'cross_entropy(OUTPUT,labels)', "
      "'mse(OUTPUT,target)' or 'output(OUTPUT)', where OUTPUT is one of "
      "the model's: " +
      names + "; or compile with --mode forward");
}

LogicalResult Compilation::checkOptions() {
  if (options.output.empty() && options.stopAfter.empty())
    return fail("say where to write the plan: -o PLAN");
  if (!options.forward && options.loss.empty() && options.stopAfter != "import")
    return explainMissingLoss();
  mesh = strategy::toAttribute(context, options.strategy.mesh);
  if (auto checked = options.strategy.check(context); !checked)
    return fail(checked.error().message);
  auto made = makeMachine(context, options, mesh);
  if (!made)
    return fail(made.error().message);
  machine = *std::move(made);
  if (!options.dumpDirectory.empty())
    if (auto code = llvm::sys::fs::create_directories(options.dumpDirectory))
      return fail("--dump-passes: cannot make the folder '" +
                  options.dumpDirectory + "': " + code.message());
  if (!options.stopAfter.empty())
    return success();
  CrowdCheck crowd = checkCrowd(options, mesh.getNumDevices());
  if (!crowd.error.empty())
    return fail(crowd.error);
  if (!crowd.warning.empty())
    emitWarning(UnknownLoc::get(&context)) << crowd.warning;
  // Files of external data belong to the model; they are no plans.
  std::vector<InputUse> inputs{{"the model", options.model},
                               {"--shard-file", options.strategy.shardFile},
                               {"--machine", options.machine},
                               {"--params", options.params}};
  OutputUse plan{"-o", options.output, FileKind::Plan};
  if (auto safe = checkOutputs(inputs, {&plan, 1}); !safe)
    return fail(safe.error().message);
  if (failed(openKernelCache()))
    return failure();
  if (llvm::sys::fs::is_directory(options.output))
    return fail("cannot write '" + options.output + "': it is a directory");
  if (llvm::sys::fs::exists(options.output) &&
      !llvm::sys::fs::is_regular_file(options.output))
    return fail("cannot write '" + options.output +
                "': it is not a regular file");
  // Only creating a file shows that one can be created.
  int descriptor;
  SmallString<256> probe;
  if (auto code = llvm::sys::fs::createUniqueFile(
          options.output + ".writing-%%%%%%", descriptor, probe))
    return fail("cannot write '" + options.output + "': " + code.message());
  llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);
  llvm::sys::fs::remove(probe);
  return success();
}

LogicalResult Compilation::openKernelCache() {
  std::string folder = options.kernelCache, source = "--kernel-cache: ";
  if (const char *text = std::getenv("POLYRANK_KERNEL_CACHE");
      text && *text && !options.given.count("kernel-cache"))
    folder = text, source = "POLYRANK_KERNEL_CACHE: ";
  if (folder.empty())
    return success();
  auto opened = target::KernelCache::open(folder);
  if (!opened)
    return fail(source + opened.error().message);
  kernels.emplace(*std::move(opened));
  report.kernels.emplace().folder = folder;
  return success();
}

LogicalResult Compilation::importModel() {
  auto importOptions = readImportOptions(options);
  if (!importOptions)
    return fail(importOptions.error().message);
  if (auto bound = bindInputs(context, options, *importOptions); !bound)
    return fail(bound.error().message);
  llvm::StringMap<frontends::OpenDims> openDims;
  importOptions->openDims = &openDims;
  module = driver::importModel(context, options.model, *importOptions);
  if (!module || failed(checkElements(*module)) ||
      failed(findBatch(*module, options, openDims)))
    return failure();
  setMachine(*module, machine);
  rank::setDenormals(*module, options.flushDenormals ? rank::Denormals::Flush
                                                     : rank::Denormals::Keep);
  // The runtime reports the model under this name.
  graph::setModelName(*module, llvm::sys::path::filename(options.model));
  return success();
}

LogicalResult Compilation::buildStep() {
  Result<int32_t> pipe = options.strategy.findPipeAxis(mesh);
  if (!pipe || *pipe < 0)
    return runPasses("training", [&](OpPassManager &manager) {
      addTraining(manager, options, mesh);
    });
  if (failed(runPasses("training", [&](OpPassManager &manager) {
        addForward(manager, options, mesh);
      })))
    return failure();
  if (failed(timed("training", "lay out for the cut", [&] {
        uncutProblem = layOutForCut(*module, options, mesh);
        return success();
      })))
    return failure();
  return runPasses("training", [&](OpPassManager &manager) {
    addDifferentiation(manager, options, mesh);
  });
}

LogicalResult Compilation::partition() {
  sharding::setMesh(*module, mesh);
  if (failed(runPasses("propagate", [&](OpPassManager &manager) {
        addPropagation(manager, options);
      })))
    return failure();
  auto step = module->lookupSymbol<func::FuncOp>("step");
  report.objective = sharding::getObjective(step);
  if (stopsAfter("propagate"))
    return success();
  if (failed(runPasses("partition", [&](OpPassManager &manager) {
        addPartition(manager, options);
      })))
    return failure();
  if (!uncutProblem.empty())
    emitWarning(module->getLoc())
        << "the cut counts whole tensors, since the step has no layouts "
           "without stages: "
        << uncutProblem;
  StepHoldings holdings = StepHoldings::of(step, options);
  report.replicated = holdings.replicated;
  for (const std::string &text : findIdle(options, holdings))
    emitRemark(module->getLoc()) << text;
  if (options.why && !options.json)
    sharding::printWhy(*module, llvm::outs());
  stopsAfter("partition");
  return success();
}

LogicalResult Compilation::run() {
  if (failed(checkOptions()) ||
      failed(timed("import", "import", [&] { return importModel(); })))
    return failure();
  if (stopsAfter("import"))
    return success();
  if (failed(buildStep()))
    return failure();
  if (stopsAfter("training"))
    return success();
  if (failed(partition()) || stopped)
    return success(stopped);
  plan::PlanOptions planOptions;
  planOptions.forward = options.forward;
  planOptions.machine = machine.name;
  planOptions.kernels = kernels ? &*kernels : nullptr;
  planOptions.assembler = options.ptxas;
  if (failed(runPasses("lowering", [&](OpPassManager &manager) {
        lowering::LoweringStageOptions lowering;
        // A plan without weights is for inspection, and is not run on this
        // machine.
        lowering.measure = !options.abstractWeights;
        lowering.attention = options.attention;
        lowering.overlap = options.strategy.overlap;
        lowering.prefetch = options.strategy.prefetch;
        lowering.report = true;
        lowering::loweringStage(manager, lowering);
      })))
    return failure();
  if (stopsAfter("rank"))
    return success();
  runtime::PlanTimeline timeline;
  if (failed(timed("plan", "compile kernels and write", [&]() -> LogicalResult {
        auto written = plan::writePlan(*module, planOptions, options.output);
        if (kernels) {
          report.kernels->found = kernels->numFound();
          report.kernels->compiled = kernels->numCompiled();
        }
        if (failed(written))
          return failure();
        timeline = *std::move(written);
        return success();
      })))
    return failure();
  return reportStep(*module, timeline);
}

int polyrank::driver::compile(const Options &options) {
  if (options.describe)
    return describe(options);
  Compilation compilation(options);
  bool isDone = succeeded(compilation.run());
  const CompileReport &report = compilation.getReport();
  if (options.timing)
    llvm::errs() << describeTimes(report);
  std::string plan =
      isDone && !compilation.isStopped() ? options.output : std::string();
  if (!plan.empty() && !options.quiet)
    llvm::errs() << describePlan(plan, options.machines);
  if (options.json)
    llvm::outs() << toJson(report, options.model, plan, options.machines);
  return isDone ? 0 : 1;
}
