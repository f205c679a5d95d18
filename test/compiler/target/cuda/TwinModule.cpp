// The twin of a GPU's kernels: its code is rewritten, compiled and run.

#include "test/compiler/target/cuda/TwinModule.h"

#include <algorithm>
#include <numeric>

#include "test/compiler/target/cuda/TwinCalls.h"
#include "test/compiler/target/cuda/TwinMachine.h"
#include "test/compiler/target/schedule/Denormals.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::twin;

/// NVPTX's number of shared memory.
static constexpr unsigned sharedSpace = 3;
/// The most bytes that a thread accesses at once.
static constexpr uint64_t mostBytes = 16;

bool Report::has(Fault fault) const {
  return any_of(findings,
                [&](const Finding &finding) { return finding.fault == fault; });
}

std::string Report::print() const {
  std::string text;
  for (const Finding &finding : findings)
    text += finding.text + " (" + std::to_string(finding.count) + " times)\n";
  return text;
}

// Rewriting

namespace {
/// Shared memory of a module.
struct Shared {
  std::string name;
  std::unique_ptr<char[]> data;
  size_t size;
};

/// Turns a GPU's module into one of functions for this CPU.
class Rewriter {
public:
  explicit Rewriter(llvm::Module &module) : module(module) {}

  /// Returns what cannot be rewritten; empty if nothing.
  std::string run();
  /// Symbols that the code needs, with their addresses.
  std::vector<std::pair<std::string, void *>> symbols;
  /// The kernels, and the number of their parameters.
  StringMap<size_t> kernels;

private:
  void addAccess(Instruction &instruction, Value *address, Type *type,
                 Align alignment, bool isWrite);
  std::string rewriteCall(CallInst &call);
  void addEntry(Function &kernel);
  FunctionCallee declare(StringRef name, FunctionType *type, void *function) {
    symbols.push_back({name.str(), function});
    return module.getOrInsertFunction(name, type);
  }
  ConstantInt *makeNumber(uint64_t value) {
    return ConstantInt::get(Type::getInt32Ty(module.getContext()), value);
  }

  llvm::Module &module;
  FunctionCallee read, write;
  /// Each access and each call has a number.
  unsigned nextSite = 0;
};
} // namespace

/// Memory of the thread itself, and constants: no other thread writes them.
static bool isPrivate(const Value *address) {
  const Value *object = getUnderlyingObject(address, /*MaxLookup=*/0);
  auto *global = dyn_cast<GlobalVariable>(object);
  return isa<AllocaInst>(object) || (global && global->isConstant());
}

/// Puts calls before an access. PTX has no access of more than 16 bytes, nor
/// one of a vector that is aligned less than it is large: LLVM's backend splits
/// it.
void Rewriter::addAccess(Instruction &instruction, Value *address, Type *type,
                         Align alignment, bool isWrite) {
  if (isPrivate(address))
    return;
  uint64_t size = module.getDataLayout().getTypeStoreSize(type);
  uint64_t piece = std::min({size & -size, alignment.value(), mostBytes});
  IRBuilder<> builder(&instruction);
  for (uint64_t at = 0; at < size; at += piece)
    builder.CreateCall(
        isWrite ? write : read,
        {builder.CreateConstGEP1_64(builder.getInt8Ty(), address, at),
         makeNumber(piece), makeNumber(piece), makeNumber(nextSite++)});
}

/// Intrinsics that a CPU computes as a GPU does, and hints.
static bool isArithmetic(const CallInst &call) {
  auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
  return intrinsic &&
         (!call.mayReadOrWriteMemory() || intrinsic->isAssumeLikeIntrinsic());
}

std::string Rewriter::rewriteCall(CallInst &call) {
  Function *callee = call.getCalledFunction();
  if (!callee)
    return "calls a function by its address";
  StringRef name = callee->getName();
  if (!name.starts_with("llvm.nvvm."))
    return isArithmetic(call) || !callee->isDeclaration()
               ? ""
               : "calls " + name.str() + ", which the twin cannot see into";
  const TwinCall *known = findCall(name.str().c_str());
  if (!known)
    return "calls " + name.str() + ", for which the twin has no function";
  IRBuilder<> builder(&call);
  SmallVector<Value *> arguments;
  SmallVector<Type *> types;
  auto isBoolean = [](Type *type) { return type->isIntegerTy(1); };
  for (Value *argument : call.args())
    arguments.push_back(isBoolean(argument->getType())
                            ? builder.CreateZExt(argument, builder.getInt32Ty())
                            : argument);
  arguments.push_back(makeNumber(nextSite++));
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  Type *result =
      isBoolean(call.getType()) ? builder.getInt32Ty() : call.getType();
  FunctionCallee function = declare(
      "twin." + name.drop_front(strlen("llvm.nvvm.")).str(),
      FunctionType::get(result, types, /*isVarArg=*/false), known->function);
  Value *value = builder.CreateCall(function, arguments);
  if (isBoolean(call.getType()))
    value = builder.CreateTrunc(value, call.getType());
  call.replaceAllUsesWith(value);
  call.eraseFromParent();
  return "";
}

/// Adds a function that takes where the values of the parameters are.
void Rewriter::addEntry(Function &kernel) {
  IRBuilder<> builder(module.getContext());
  Function *entry = Function::Create(
      FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false),
      Function::ExternalLinkage, "twin.run." + kernel.getName(), module);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<Value *> arguments;
  for (Argument &parameter : kernel.args()) {
    Value *place = builder.CreateLoad(
        builder.getPtrTy(),
        builder.CreateConstGEP1_64(builder.getPtrTy(), entry->getArg(0),
                                   parameter.getArgNo()));
    arguments.push_back(builder.CreateLoad(parameter.getType(), place));
  }
  builder.CreateCall(&kernel, arguments);
  builder.CreateRetVoid();
  kernels[kernel.getName()] = arguments.size();
}

std::string Rewriter::run() {
  LLVMContext &context = module.getContext();
  Type *number = Type::getInt32Ty(context);
  auto *type = FunctionType::get(
      Type::getVoidTy(context),
      {PointerType::getUnqual(context), number, number, number}, false);
  read = declare("twin.read", type, getReadFunction());
  write = declare("twin.write", type, getWriteFunction());
  SmallVector<Function *> functions;
  for (Function &function : module) {
    // The attributes are promises that hold on a GPU: its calls of other
    // threads' work wait, and its kernels' memory is no other kernel's.
    if (!function.isIntrinsic())
      function.setAttributes(AttributeList());
    if (!function.isDeclaration())
      functions.push_back(&function);
  }
  for (Function *function : functions) {
    for (Instruction &instruction :
         make_early_inc_range(instructions(*function))) {
      std::string problem;
      // A misaligned access is a finding, and need not end the run.
      if (auto *load = dyn_cast<LoadInst>(&instruction)) {
        addAccess(instruction, load->getPointerOperand(), load->getType(),
                  load->getAlign(), /*isWrite=*/false);
        load->setAlignment(Align(1));
      } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
        addAccess(instruction, store->getPointerOperand(),
                  store->getValueOperand()->getType(), store->getAlign(),
                  /*isWrite=*/true);
        store->setAlignment(Align(1));
      } else if (isa<AtomicRMWInst, AtomicCmpXchgInst>(instruction))
        problem = "has an atomic access, whose order is not determined";
      else if (auto *call = dyn_cast<CallInst>(&instruction))
        problem = rewriteCall(*call);
      if (!problem.empty())
        return "kernel " + function->getName().str() + " " + problem;
    }
    if (!function->hasLocalLinkage())
      addEntry(*function);
  }
  return "";
}

/// The text of the module for one address space and no GPU.
static std::string printWithoutSpaces(const llvm::Module &module) {
  std::string text, result;
  raw_string_ostream os(text);
  module.print(os, nullptr);
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n');
  Regex space(" ?addrspace\\([0-9]+\\)");
  for (StringRef line : lines) {
    if (line.starts_with("target "))
      continue;
    std::string changed = line.str();
    auto replaceAll = [&](StringRef from, StringRef to) {
      for (size_t at; (at = changed.find(from)) != std::string::npos;)
        changed.replace(at, from.size(), to);
    };
    replaceAll("addrspacecast", "bitcast");
    replaceAll("ptx_kernel ", "");
    while (space.match(changed))
      changed = space.sub("", changed);
    result += changed + "\n";
  }
  return result;
}

// Compilation

struct TwinModule::Code {
  std::unique_ptr<orc::LLJIT> jit;
  std::vector<Shared> shared;
  StringMap<size_t> kernels;
};

TwinModule::TwinModule(std::unique_ptr<Code> code) : code(std::move(code)) {}
TwinModule::~TwinModule() = default;

static Expected<std::unique_ptr<orc::LLJIT>> createJit() {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto machine = orc::JITTargetMachineBuilder::detectHost();
  if (!machine)
    return machine.takeError();
  machine->getOptions().AllowFPOpFusion = FPOpFusion::Strict;
  machine->setCodeGenOptLevel(CodeGenOptLevel::Less);
  machine->setRelocationModel(Reloc::PIC_);
  auto jit = orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(*machine))
                 .create();
  if (!jit)
    return jit.takeError();
  // Functions of C that LLVM calls for what the CPU has no instruction.
  auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  return jit;
}

polyrank::Result<std::unique_ptr<TwinModule>>
TwinModule::create(const llvm::Module &original) {
  auto fail = [](const Twine &text) { return polyrank::Error{text.str()}; };
  auto code = std::make_unique<Code>();
  auto context = std::make_unique<LLVMContext>();
  SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      parseAssemblyString(printWithoutSpaces(original), diagnostic, *context);
  if (!module)
    return fail("the twin's text does not parse: " + diagnostic.getMessage() +
                ": " + diagnostic.getLineContents());
  auto jit = createJit();
  if (!jit)
    return fail("no twin can be compiled: " + toString(jit.takeError()));
  module->setDataLayout((*jit)->getDataLayout());
  module->setTargetTriple((*jit)->getTargetTriple());

  Rewriter rewriter(*module);
  for (const GlobalVariable &global : original.globals()) {
    if (global.getAddressSpace() != sharedSpace)
      continue;
    // Shared memory is the twin's own.
    GlobalVariable *twin = module->getGlobalVariable(global.getName(), true);
    if (!twin)
      return fail("shared memory has no name");
    size_t size =
        module->getDataLayout().getTypeAllocSize(twin->getValueType());
    if (size == 0)
      return fail("shared memory " + global.getName() +
                  " has no size that the twin knows");
    Shared shared{global.getName().str(), nullptr, size};
    constexpr size_t most = 256; // a multiple of all alignments
    shared.data = std::make_unique<char[]>(size + most);
    void *data = shared.data.get();
    size_t space = size + most;
    std::align(most, size, data, space);
    twin->setLinkage(GlobalValue::ExternalLinkage);
    twin->setInitializer(nullptr);
    twin->setDSOLocal(false);
    rewriter.symbols.push_back({shared.name, data});
    code->shared.push_back(std::move(shared));
  }
  if (std::string problem = rewriter.run(); !problem.empty())
    return fail(problem);
  std::string problem;
  raw_string_ostream os(problem);
  if (verifyModule(*module, &os))
    return fail("the twin is no valid code: " + problem);

  orc::SymbolMap symbols;
  for (auto &[name, address] : rewriter.symbols)
    symbols[(*jit)->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
  auto &library = (*jit)->getMainJITDylib();
  if (llvm::Error error =
          library.define(orc::absoluteSymbols(std::move(symbols))))
    return fail(toString(std::move(error)));
  if (llvm::Error error = (*jit)->addIRModule(orc::ThreadSafeModule(
          std::move(module), orc::ThreadSafeContext(std::move(context)))))
    return fail(toString(std::move(error)));
  code->kernels = std::move(rewriter.kernels);
  code->jit = std::move(*jit);
  return std::unique_ptr<TwinModule>(new TwinModule(std::move(code)));
}

// Execution

polyrank::Result<Report> TwinModule::run(const std::string &kernel,
                                         const Launch &launch) const {
  auto known = code->kernels.find(kernel);
  if (known == code->kernels.end())
    return polyrank::Error{"there is no kernel " + kernel};
  if (known->second != launch.parameters.size())
    return polyrank::Error{"kernel " + kernel + " has " +
                           std::to_string(known->second) +
                           " parameters; it is launched with " +
                           std::to_string(launch.parameters.size())};
  if (launch.threads < 1 || launch.threads > 1024 ||
      launch.threads % warpSize != 0)
    return polyrank::Error{"kernel " + kernel + " is launched with " +
                           std::to_string(launch.threads) +
                           " threads; blocks have 32 to 1024, in warps of 32"};
  auto entry = code->jit->lookup("twin.run." + kernel);
  if (!entry)
    return polyrank::Error{"kernel " + kernel +
                           " does not compile: " + toString(entry.takeError())};
  auto *function = entry->toPtr<void(const void *const *)>();

  std::vector<Buffer> buffers = launch.buffers;
  for (const Shared &shared : code->shared) {
    auto address = code->jit->lookup(shared.name);
    if (!address)
      return polyrank::Error{toString(address.takeError())};
    Buffer &buffer = buffers.emplace_back();
    buffer.name = "shared memory " + shared.name;
    buffer.data = address->toPtr<void *>();
    buffer.size = shared.size;
    buffer.isShared = true;
  }
  Memory memory(std::move(buffers));
  Machine machine(memory, launch.blocks, launch.threads, launch.seed);
  target::Denormals denormals(launch.flushesDenormals);
  machine.run([&] { function(launch.parameters.data()); });
  return Report{memory.getFindings(), memory.getTraffic()};
}
