// Lowers a scheduled kernel to LLVM IR for a GPU, and that to PTX.

#include "compiler/target/cuda/LowerToLlvm.h"

#include <mutex>

#include "compiler/target/Target.h"
#include "compiler/target/cuda/Architecture.h"
#include "compiler/target/cuda/KernelEmitter.h"
#include "dialects/rank/Denormals.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

static constexpr StringLiteral triple = "nvptx64-nvidia-cuda";

void cuda::registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect,
                  LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

static void addConversions(PassManager &passes) {
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

void cuda::loadDialects(MLIRContext *context) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  PassManager passes(context, ModuleOp::getOperationName());
  addConversions(passes);
  passes.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context->getOrLoadDialect(name);
}

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(StringRef architecture) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  llvm::Triple nvptx(triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(nvptx, error);
  if (!target)
    llvm::report_fatal_error("LLVM was built without NVPTX: " + Twine(error));
  llvm::TargetOptions options;
  // a * b + c keeps both roundings unless the program contains an fma.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      nvptx, architecture, /*Features=*/"", options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Splits loads of joined lanes of which some are not needed, which are loads
/// under a constant mask, so that what reads the module sees each load. LLVM
/// joins them again when it selects instructions.
static void splitMaskedLoads(llvm::Module &module) {
  SmallVector<llvm::IntrinsicInst *> loads;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = dyn_cast<llvm::IntrinsicInst>(&instruction);
          call && call->getIntrinsicID() == llvm::Intrinsic::masked_load &&
          isa<llvm::Constant>(call->getArgOperand(1)))
        loads.push_back(call);
  for (llvm::IntrinsicInst *load : loads) {
    llvm::IRBuilder<> builder(load);
    auto *type = cast<llvm::FixedVectorType>(load->getType());
    auto *mask = cast<llvm::Constant>(load->getArgOperand(1));
    llvm::Type *element = type->getElementType();
    uint64_t bytes = element->getPrimitiveSizeInBits() / 8;
    llvm::Align alignment = load->getParamAlign(0).valueOrOne();
    llvm::Value *result = load->getArgOperand(2);
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
      if (mask->getAggregateElement(lane)->isNullValue())
        continue;
      llvm::Value *value = builder.CreateAlignedLoad(
          element,
          builder.CreateConstGEP1_64(element, load->getArgOperand(0), lane),
          llvm::commonAlignment(alignment, lane * bytes));
      result = builder.CreateInsertElement(result, value, lane);
    }
    load->replaceAllUsesWith(result);
    load->eraseFromParent();
  }
}

/// Optimises for GPUs from the oldest architecture on.
static void optimize(llvm::Module &module) {
  std::unique_ptr<llvm::TargetMachine> target =
      createTargetMachine(oldestArchitecture);
  module.setDataLayout(target->createDataLayout());
  // Vectors of lanes are in the code already.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(target.get(), tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
  llvm::FunctionPassManager last;
  last.addPass(llvm::InferAlignmentPass());
  last.addPass(llvm::LoadStoreVectorizerPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(last)));
  passes.run(module, modules);
  splitMaskedLoads(module);
}

/// The alignment that all launches of a kernel give its buffers, in bytes: at
/// most 16, which the widest access needs.
static SmallVector<int64_t> findAlignments(rank::KernelOp kernel,
                                           LoopsOp loops) {
  constexpr int64_t most = 16;
  SmallVector<int64_t> alignments(
      loops->getNumOperands() + loops->getNumResults(), most);
  auto lower = [&](size_t i, rank::BufferAttr buffer) {
    for (int64_t number : {buffer.getOffset(), buffer.getStride(),
                           buffer.getStep(), buffer.getEach()})
      while (number % alignments[i] != 0)
        alignments[i] /= 2;
  };
  kernel->getParentOfType<ModuleOp>().walk([&](rank::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName() || !launch.getBuffersAttr())
      return;
    size_t i = 0;
    for (Value value : launch.getInputs())
      lower(i++, rank::getBuffer(value));
    for (Value value : launch.getOutputs())
      lower(i++, rank::getBuffer(value));
  });
  return alignments;
}

FailureOr<LoweredKernel>
cuda::lowerToLlvm(rank::KernelOp kernel, llvm::LLVMContext &context,
                  const FrozenRewritePatternSet &expansions,
                  std::string *text) {
  FailureOr<LoopsOp> loops = target::loopsOf(kernel);
  if (failed(loops))
    return failure();
  FailureOr<KernelSchedule> schedule = KernelSchedule::read(*loops);
  if (failed(schedule))
    return failure();
  LoweredKernel result;
  result.symbol = kernel.getSymName().str();
  llvm::replace(result.symbol, '.', '_');
  result.threads = schedule->threads;
  result.blocks = schedule->numBlocks(*loops);
  result.kind = stringifyLoopKind(schedule->kind).str();
  Requests requests = countRequests(*loops, *schedule);
  result.requestedBytes = requests.bytes;
  result.loadedBytes = requests.loadedAtOnce;

  KernelEmitter emitter(*loops, *schedule, findAlignments(kernel, *loops));
  OwningOpRef<ModuleOp> module = emitter.emit(result.symbol);
  result.sharedBytes = emitter.getSharedBytes();
  if (text) {
    llvm::raw_string_ostream os(*text);
    module->print(os);
  }
  walkAndApplyPatterns(*module, expansions);
  PassManager passes(kernel.getContext(), ModuleOp::getOperationName());
  addConversions(passes);
  if (failed(passes.run(*module)))
    return kernel.emitOpError("does not lower to LLVM");
  result.module = translateModuleToLLVMIR(*module, context, result.symbol);
  if (!result.module)
    return kernel.emitOpError("does not translate to LLVM");
  result.module->setTargetTriple(llvm::Triple(triple));

  llvm::Function *function = result.module->getFunction(result.symbol);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.reqntid", std::to_string(result.threads));
  function->addFnAttr(llvm::Attribute::NoUnwind);
  auto parent = kernel->getParentOfType<ModuleOp>();
  if (rank::getDenormals(parent) == rank::Denormals::Flush)
    function->addFnAttr("denormal-fp-math-f32", "preserve-sign,preserve-sign");
  optimize(*result.module);
  return result;
}

std::string cuda::writePtx(const LoweredKernel &kernel,
                           StringRef architecture) {
  std::unique_ptr<llvm::TargetMachine> target =
      createTargetMachine(architecture);
  std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*kernel.module);
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream os(ptx);
  llvm::legacy::PassManager passes;
  if (target->addPassesToEmitFile(passes, os, nullptr,
                                  llvm::CodeGenFileType::AssemblyFile))
    return "";
  passes.run(*copy);
  return std::string(ptx);
}
