// From a model file to a plan.

#include "compiler/driver/Driver.h"

#include "compiler/codegen/Machine.h"
#include "compiler/cost/CostModel.h"
#include "compiler/driver/Mesh.h"
#include "compiler/plan/WritePlan.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/ShardPattern.h"
#include "compiler/sharding/Strategy.h"
#include "compiler/sharding/Why.h"
#include "compiler/training/Passes.h"
#include "dialects/Register.h"
#include "frontends/onnx/Import.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

namespace {

/// Where in the user's model a location is: its innermost name.
std::string describe(Location location) {
  std::string name;
  location->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(inner); file && name.empty())
      name = file.getFilename().str() +
             (file.getLine() ? ":" + std::to_string(file.getLine()) : "");
    return WalkResult::advance();
  });
  return name;
}

/// `--batch-norm` and `--dropout`. On failure `error` says what is wrong.
LogicalResult readLayerOptions(const Options &options,
                               frontends::ImportOptions &result,
                               std::string &error) {
  StringRef norm = options.batchNorm, dropout = options.dropout;
  result.training = !options.forward;
  if (norm.consume_front("local=")) {
    result.batchNorm = frontends::BatchNorm::Batch;
    if (norm.getAsInteger(10, result.batchNormGroup) ||
        result.batchNormGroup < 1) {
      error = "--batch-norm: 'local=" + norm.str() +
              "' needs a number of samples, for instance local=8";
      return failure();
    }
  } else if (norm == "batch") {
    result.batchNorm = frontends::BatchNorm::Batch;
  } else if (norm == "frozen") {
    result.batchNorm = frontends::BatchNorm::Frozen;
  } else if (!norm.empty()) {
    error = "--batch-norm: unknown '" + norm.str() +
            "'; there are: batch, local=G, frozen";
    return failure();
  }
  double rate = 0;
  if (dropout == "off") {
    result.dropout = 0;
  } else if (!dropout.empty()) {
    if (dropout.getAsDouble(rate) || !(rate >= 0 && rate < 1)) {
      error = "--dropout: '" + dropout.str() +
              "' is neither 'off' nor a rate in [0, 1)";
      return failure();
    }
    result.dropout = rate;
  }
  return success();
}

/// One compilation: the stages in their order.
class Compilation {
public:
  explicit Compilation(const Options &options)
      : options(options), context(registry()) {
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false);
    context.printStackTraceOnDiagnostic(false);
    context.disableMultithreading();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      report(diagnostic);
      return success();
    });
  }

  LogicalResult run();

private:
  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    codegen::registerCodegenDialects(registry);
    return registry;
  }

  void report(Diagnostic &diagnostic);
  LogicalResult fail(const Twine &message) {
    return emitError(UnknownLoc::get(&context)) << message;
  }
  /// Runs passes, with --dump-passes and --timing.
  LogicalResult runPasses(StringRef stage,
                          function_ref<void(OpPassManager &)> build);
  /// Whether this is where the user wants to stop; prints the module then.
  bool stopsAfter(StringRef stage);

  /// What can be said of the options without the model.
  LogicalResult checkOptions();
  LogicalResult importModel();
  LogicalResult buildStep();
  LogicalResult partition();

  const Options &options;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  shard::MeshAttr mesh;
  bool stopped = false;
  int stageNumber = 0;
};

} // namespace

void Compilation::report(Diagnostic &diagnostic) {
  bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
  bool isWarning = diagnostic.getSeverity() == DiagnosticSeverity::Warning;
  if (options.quiet && !isError && !isWarning)
    return;
  std::string where = describe(diagnostic.getLocation());
  llvm::errs() << (isError     ? "error: "
                   : isWarning ? "warning: "
                               : "note: ");
  if (!where.empty())
    llvm::errs() << "'" << where << "': ";
  llvm::errs() << diagnostic.str() << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "  " << note.str() << "\n";
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
  if (options.timing)
    manager.enableTiming();
  build(manager);
  return manager.run(*module);
}

bool Compilation::stopsAfter(StringRef stage) {
  if (options.stopAfter != stage)
    return false;
  OpPrintingFlags flags;
  module->print(llvm::outs(), flags);
  return stopped = true;
}

LogicalResult Compilation::checkOptions() {
  if (options.output.empty() && options.stopAfter.empty())
    return fail("say where to write the plan: -o PLAN");
  if (!options.forward && options.loss.empty() && options.stopAfter != "import")
    return fail("training needs a loss: --loss 'cross_entropy(OUTPUT,labels)', "
                "'mse(OUTPUT,target)' or 'output(OUTPUT)'; or compile with "
                "--mode forward");
  std::string error;
  auto parsed = parseMesh(context, options.mesh, error);
  if (failed(parsed))
    return fail(error);
  mesh = *parsed;
  if (failed(cost::CostModel::parse(mesh, options.links, error)))
    return fail("--link: " + error);
  if (failed(codegen::Machine::find(options.cpu, error)))
    return fail("--cpu: " + error);
  if (!options.dumpDirectory.empty())
    if (auto code = llvm::sys::fs::create_directories(options.dumpDirectory))
      return fail("--dump-passes: cannot make the folder '" +
                  options.dumpDirectory + "': " + code.message());
  if (!options.stopAfter.empty())
    return success();
  if (llvm::sys::fs::is_directory(options.output))
    return fail("cannot write '" + options.output + "': it is a directory");
  // Only making a file there shows that one can be made.
  int descriptor;
  SmallString<256> probe;
  if (auto code = llvm::sys::fs::createUniqueFile(
          options.output + ".writing-%%%%%%", descriptor, probe))
    return fail("cannot write '" + options.output + "': " + code.message());
  llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);
  llvm::sys::fs::remove(probe);
  return success();
}

LogicalResult Compilation::importModel() {
  frontends::ImportOptions importOptions;
  for (const std::string &text : options.inputs) {
    std::string error;
    auto input = frontends::parseInputSpec(text, error);
    if (!input)
      return fail(error);
    importOptions.inputs[input->first] = input->second;
  }
  std::string error;
  if (failed(readLayerOptions(options, importOptions, error)))
    return fail(error);
  if (!StringRef(options.model).ends_with(".onnx"))
    return fail("'" + options.model +
                "' is not an ONNX file (.onnx); export the model with "
                "torch.onnx.export(..., dynamo=True, optimize=False)");
  module = frontends::importOnnx(context, options.model, importOptions);
  if (!module)
    return failure();
  // What the runtime calls the model.
  (*module)->setAttr(
      "graph.model",
      StringAttr::get(&context, llvm::sys::path::filename(options.model)));
  return success();
}

LogicalResult Compilation::buildStep() {
  return runPasses("training", [&](OpPassManager &manager) {
    manager.addPass(training::createRaiseCompositesPass());
    manager.addPass(training::createUnflattenPass());
    manager.addPass(training::createFindLogicalParametersPass());
    manager.addPass(createCSEPass());
    if (!options.loss.empty()) {
      training::AttachLossPassOptions loss;
      loss.loss = options.loss;
      manager.addPass(training::createAttachLossPass(loss));
    }
    training::BuildStepPassOptions step;
    step.mode = options.forward ? "forward" : "train";
    step.optimizer = options.optimizer;
    step.microbatches = options.microbatches;
    manager.addPass(training::createBuildStepPass(step));
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
  });
}

LogicalResult Compilation::partition() {
  std::string error;
  sharding::StrategyOptions strategy;
  strategy.mesh = mesh;
  if (!options.shardFile.empty()) {
    auto lines = sharding::readShardFile(options.shardFile, error);
    if (failed(lines))
      return fail(error);
    strategy.shards = *lines;
  }
  llvm::append_range(strategy.shards, options.shards);
  if (failed(sharding::applyStrategy(*module, strategy)))
    return failure();
  if (failed(runPasses("propagate", [&](OpPassManager &manager) {
        sharding::PropagateLayoutsOptions propagate;
        propagate.report = true;
        manager.addNestedPass<func::FuncOp>(
            sharding::createPropagateLayouts(propagate));
      })))
    return failure();
  if (stopsAfter("propagate"))
    return success();
  if (failed(runPasses("partition", [&](OpPassManager &manager) {
        manager.addNestedPass<func::FuncOp>(
            sharding::createDecomposeComposites());
        sharding::PlanReshardsOptions reshards;
        llvm::append_range(reshards.links, options.links);
        manager.addNestedPass<func::FuncOp>(
            sharding::createPlanReshards(reshards));
        sharding::BucketCollectivesOptions buckets;
        buckets.megabytes = options.bucketMegabytes;
        manager.addNestedPass<func::FuncOp>(
            sharding::createBucketCollectives(buckets));
        manager.addNestedPass<func::FuncOp>(sharding::createCheckPartition());
      })))
    return failure();
  if (options.why)
    sharding::printWhy(*module, llvm::outs());
  stopsAfter("partition");
  return success();
}

LogicalResult Compilation::run() {
  if (failed(checkOptions()) || failed(importModel()))
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
  planOptions.threads = options.threads;
  planOptions.forward = options.forward;
  planOptions.codegen.cpu = options.cpu;
  if (failed(runPasses("lowering", [&](OpPassManager &manager) {
        plan::buildLoweringPipeline(manager, planOptions);
      })))
    return failure();
  if (stopsAfter("rank"))
    return success();
  return plan::writePlan(*module, planOptions, options.output);
}

int polyrank::driver::compile(const Options &options) {
  return failed(Compilation(options).run()) ? 1 : 0;
}
