// polyrank-opt runs passes on MLIR text, and evaluates the result.

#include "tools/polyrank-opt/Opt.h"

#include "compiler/evaluate/Passes.h"
#include "dialects/Register.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "support/OutOfMemory.h"
#include "support/Version.h"
#include "tools/polyrank-opt/RegisterPasses.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

namespace cl = llvm::cl;

// LLVM is built without -debug-only, so it is defined here for LLVM_DEBUG in
// Polyrank's files. A release build has no debug output.
#ifndef NDEBUG
static cl::opt<std::string>
    debugOnly("debug-only", cl::desc("Print the debug output of one component"),
              cl::callback([](const std::string &component) {
                llvm::DebugFlag = true;
                llvm::setCurrentDebugType(component.c_str());
              }));
#endif

static polyrank::evaluate::EvaluateOptions evaluation;
static cl::opt<std::string, true>
    mode("evaluate", cl::location(evaluation.mode), cl::value_desc("mode"),
         cl::desc("Evaluate the functions after the passes: global, "
                  "distributed, ranks or arena; prints results instead of IR"));
static cl::list<std::string, std::vector<std::string>>
    inputs("inputs", cl::location(evaluation.inputs),
           cl::value_desc("SET.npz or NAME=FILE.npy"),
           cl::desc("Arguments for --evaluate, by name; may be repeated"));
static cl::opt<std::string, true>
    outputs("outputs", cl::location(evaluation.outputs), cl::value_desc("file"),
            cl::desc("Write the results of --evaluate to a .npz file"));
static cl::opt<std::string, true>
    expected("expect", cl::location(evaluation.expected),
             cl::value_desc("file"),
             cl::desc("Fail where a result of --evaluate is not the array of "
                      "its name in this .npz file, such as --outputs wrote"));
static cl::opt<double, true>
    tolerance("tolerance", cl::location(evaluation.tolerance),
              cl::desc("How far results may be from --expect, relative "
                       "(default 1e-9)"));
using polyrank::graph::Rounding;
static cl::opt<Rounding, true>
    rounding("rounding", cl::location(evaluation.rounding),
             cl::desc("How --evaluate computes floats:"),
             cl::values(clEnumValN(Rounding::Exact, "exact",
                                   "all in double precision (the default)"),
                        clEnumValN(Rounding::OfTypes, "types",
                                   "each result rounded as its type says")));
static cl::opt<uint64_t, true>
    seed("seed", cl::location(evaluation.seed),
         cl::desc("Arguments that --inputs does not give are drawn from this"));

/// Keeps in --help only our options and those that MLIR is about to register:
/// LLVM's back ends have some hundred options of their own (--help-hidden shows
/// them).
static void hideOtherOptions() {
  const llvm::StringSet<> ours{"debug-only", "evaluate",  "inputs", "outputs",
                               "expect",     "tolerance", "seed"};
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (!ours.contains(name) && name != "help" && name != "version")
      option->setHiddenFlag(cl::Hidden);
}

int polyrank::runOpt(int argc, char **argv,
                     void (*registerTarget)(mlir::DialectRegistry &)) {
  polyrank::endWhenOutOfMemory("polyrank-opt");
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { polyrank::endOutOfMemory(); });
  cl::AddExtraVersionPrinter([](llvm::raw_ostream &out) {
    out << "polyrank-opt " << polyrank::versionText << "\n";
  });
  hideOtherOptions();
  mlir::registerTransformsPasses();
  polyrank::registerPasses();
  mlir::DialectRegistry registry;
  polyrank::registerDialects(registry);
  registerTarget(registry);

  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Polyrank's passes, one by one", registry);
  mlir::MlirOptMainConfig parsed =
      mlir::MlirOptMainConfig::createFromCLOptions();
  mlir::MlirOptMainConfig config = parsed;
  if (!evaluation.mode.empty()) {
    config.setPassPipelineSetupFn([&](mlir::PassManager &manager) {
      if (failed(parsed.setupPassPipeline(manager)))
        return mlir::failure();
      manager.addPass(polyrank::evaluate::createEvaluatePass(evaluation));
      return mlir::success();
    });
    // The output is the results, not the IR.
    output = "/dev/null";
  }
  std::string error;
  auto file = mlir::openInputFile(input, &error);
  auto out = mlir::openOutputFile(output, &error);
  if (!file || !out) {
    llvm::errs() << error << "\n";
    return 1;
  }
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return 1;
  out->keep();
  return 0;
}
