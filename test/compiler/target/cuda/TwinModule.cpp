// The twin of a GPU's kernels: its code is rewritten, compiled and run.

#include "test/compiler/target/cuda/TwinModule.h"

#include <algorithm>

#include "test/compiler/target/cuda/TwinMachine.h"
#include "test/compiler/target/cuda/TwinRewriter.h"
#include "test/compiler/target/schedule/Denormals.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::twin;

/// NVPTX's number of shared memory.
static constexpr unsigned sharedSpace = 3;
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

namespace {
/// Shared memory of a module.
struct Shared {
  std::string name;
  std::unique_ptr<char[]> data;
  size_t size;
};
} // namespace

// Compilation

struct TwinModule::Code {
  std::unique_ptr<orc::LLJIT> jit;
  std::vector<Shared> shared;
  TwinCode rewritten;
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
    code->rewritten.symbols.push_back({shared.name, data});
    code->shared.push_back(std::move(shared));
  }
  if (std::string problem = rewriteModule(*module, code->rewritten);
      !problem.empty())
    return fail(problem);
  std::string problem;
  raw_string_ostream os(problem);
  if (verifyModule(*module, &os))
    return fail("the twin is no valid code: " + problem);

  orc::SymbolMap symbols;
  for (auto &[name, address] : code->rewritten.symbols)
    symbols[(*jit)->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
  auto &library = (*jit)->getMainJITDylib();
  if (llvm::Error error =
          library.define(orc::absoluteSymbols(std::move(symbols))))
    return fail(toString(std::move(error)));
  if (llvm::Error error = (*jit)->addIRModule(orc::ThreadSafeModule(
          std::move(module), orc::ThreadSafeContext(std::move(context)))))
    return fail(toString(std::move(error)));
  code->jit = std::move(*jit);
  return std::unique_ptr<TwinModule>(new TwinModule(std::move(code)));
}

// Execution

polyrank::Result<Report> TwinModule::run(const std::string &kernel,
                                         const Launch &launch) const {
  auto known = code->rewritten.kernels.find(kernel);
  if (known == code->rewritten.kernels.end())
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
  Memory memory(std::move(buffers), launch.countsTraffic);
  Machine machine(memory, launch.blocks, launch.threads, launch.seed);
  target::Denormals denormals(launch.flushesDenormals);
  machine.run([&] { function(launch.parameters.data()); });
  return Report{memory.getFindings(), memory.getTraffic()};
}
