// Compiles kernels to machine code: loops, MLIR's conversions, LLVM, the
// linker.

#include "compiler/target/cpu/CompileKernels.h"

#include "compiler/cost/KernelCost.h"
#include "compiler/target/KernelCache.h"
#include "compiler/target/Threads.h"
#include "compiler/target/cpu/EmitLoops.h"
#include "compiler/target/cpu/Link.h"
#include "compiler/target/cpu/Machine.h"
#include "compiler/target/math/ExpandMath.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "runtime/plan/plan_generated.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;
using namespace polyrank::target;

void cpu::registerCodegenDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect,
              math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

LogicalResult cpu::scheduleKernel(rank::KernelOp kernel) {
  FailureOr<LoopsOp> loops = loopsOf(kernel);
  if (failed(loops))
    return failure();
  KernelSchedule schedule = scheduleLoops(*loops);
  loops->setScheduleAttr(schedule.write(*loops));
  // An item of the range is at least a row.
  target::setInPlace(kernel, *loops, kernel::ThreadWork::Row);
  return success();
}

namespace {
/// The loops of a kernel, and how they run.
struct Scheduled {
  LoopsOp loops;
  KernelSchedule schedule;
};
} // namespace

/// Reads what scheduleKernel wrote; emits an error if it is not there or wrong.
static FailureOr<Scheduled> readScheduled(rank::KernelOp kernel) {
  FailureOr<LoopsOp> loops = loopsOf(kernel);
  if (failed(loops))
    return failure();
  FailureOr<KernelSchedule> schedule = KernelSchedule::read(*loops);
  if (failed(schedule))
    return failure();
  return Scheduled{*loops, *std::move(schedule)};
}

LogicalResult cpu::writeLaunch(rank::KernelOp kernel,
                               runtime::plan::LaunchT &written) {
  FailureOr<Scheduled> scheduled = readScheduled(kernel);
  if (failed(scheduled))
    return failure();
  runtime::plan::CpuLaunchT launch;
  launch.range = scheduled->schedule.numItems(scheduled->loops);
  launch.grain = scheduled->schedule.grain;
  written.body.Set(launch);
  return success();
}

static void addConversions(PassManager &passes) {
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

/// Loads all dialects that compiling a kernel needs: many threads compile
/// concurrently, and none may change the context.
static void loadDialects(MLIRContext *context) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  PassManager passes(context, ModuleOp::getOperationName());
  addConversions(passes);
  passes.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context->getOrLoadDialect(name);
}

static void dump(StringRef directory, StringRef name, StringRef extension,
                 StringRef text) {
  if (directory.empty() || llvm::sys::fs::create_directories(directory))
    return;
  SmallString<128> path(directory);
  llvm::sys::path::append(path, name + extension);
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (!error)
    file << text;
}

/// Compiles the module that emitLoops made of a kernel to an object file.
static FailureOr<std::string>
compileModule(rank::KernelOp kernel, ModuleOp module, const Machine &machine,
              const FrozenRewritePatternSet &expansions,
              std::string *assembly) {
  walkAndApplyPatterns(module, expansions);
  PassManager passes(kernel.getContext(), ModuleOp::getOperationName());
  addConversions(passes);
  if (failed(passes.run(module)))
    return kernel.emitOpError("does not lower to LLVM");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, kernel.getSymName());
  if (!llvmModule)
    return kernel.emitOpError("does not translate to LLVM");
  FailureOr<std::string> object = machine.compile(*llvmModule, assembly);
  if (failed(object))
    return kernel.emitOpError("has no machine code");
  return object;
}

/// Compiles one kernel to an object file.
static FailureOr<std::string>
compileKernel(rank::KernelOp kernel, const Machine &machine,
              const FrozenRewritePatternSet &expansions,
              const target::CompileSettings &settings,
              target::CompiledKernel &info) {
  FailureOr<Scheduled> scheduled = readScheduled(kernel);
  if (failed(scheduled))
    return failure();
  graph::Cost cost = cost::getCost(scheduled->loops);
  info = {kernel.getSymName().str(), cost.flops, cost.bytesRead,
          cost.bytesWritten};
  OwningOpRef<ModuleOp> module =
      emitLoops(info.symbol, scheduled->loops, scheduled->schedule);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!settings.dumpDirectory.empty()) {
    kernel->print(os, OpPrintingFlags().useLocalScope());
    os << "\n";
    module->print(os);
    dump(settings.dumpDirectory, info.symbol, ".mlir", text);
    std::string assembly;
    FailureOr<std::string> object =
        compileModule(kernel, *module, machine, expansions, &assembly);
    dump(settings.dumpDirectory, info.symbol, ".s", assembly);
    return object;
  }
  auto compile = [&] {
    return compileModule(kernel, *module, machine, expansions, nullptr);
  };
  if (!settings.cache)
    return compile();
  // Code depends on the module and the machine, and on nothing else.
  module->print(os);
  std::string features = llvm::join(machine.features, ",");
  return settings.cache->get(
      {"cpu", machine.cpu, features, text}, compile,
      [&](const std::string &problem) { kernel.emitWarning(problem); });
}

FailureOr<target::CompiledKernels>
cpu::compileKernels(ModuleOp module, const std::string &name,
                    const target::CompileSettings &settings) {
  Result<Machine> machine = Machine::find(name);
  if (!machine)
    return module.emitError() << machine.error().message;
  SmallVector<rank::KernelOp> kernels(module.getOps<rank::KernelOp>());
  target::CompiledKernels result;
  target::CompiledImage &image = result.images.emplace_back();
  image.format = runtime::plan::ImageFormat::elf;
  image.machine = machine->cpu;
  image.features = machine->features;
  result.kernels.resize(kernels.size());
  if (kernels.empty())
    return result;

  MLIRContext *context = module.getContext();
  loadDialects(context);
  RewritePatternSet patterns(context);
  populateMathExpansions(patterns);
  FrozenRewritePatternSet expansions(std::move(patterns));
  std::vector<std::string> objects(kernels.size());
  {
    target::Threads threads(context);
    ParallelDiagnosticHandler diagnostics(context);
    if (failed(failableParallelForEachN(
            context, 0, kernels.size(), [&](size_t i) -> LogicalResult {
              diagnostics.setOrderIDForThread(i);
              FailureOr<std::string> object =
                  compileKernel(kernels[i], *machine, expansions, settings,
                                result.kernels[i]);
              diagnostics.eraseOrderIDForThread();
              if (failed(object))
                return failure();
              objects[i] = std::move(*object);
              return success();
            })))
      return failure();
  }
  if (settings.cache)
    settings.cache->prune();
  Result<std::string> linked = linkImage(objects);
  if (!linked)
    return module.emitError("cannot link the kernels: ")
           << linked.error().message;
  image.bytes = std::move(*linked);
  return result;
}
