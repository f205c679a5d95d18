// Compiles LLVM IR to an object file for one CPU.

#include "compiler/target/cpu/Machine.h"

#include <mutex>

#include "support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;
using namespace polyrank::cpu;

static constexpr StringLiteral triple = "x86_64-unknown-linux-gnu";

/// The features of a level of the x86-64 psABI beyond the one before.
static constexpr StringLiteral level3[] = {
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx",  "avx2",
    "bmi",  "bmi2",  "f16c",   "fma",    "lzcnt",  "movbe"};
static constexpr StringLiteral level4[] = {"avx512f", "avx512bw", "avx512cd",
                                           "avx512dq", "avx512vl"};

static const Target &getTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(Triple(triple), error);
  assert(target && "this LLVM has no x86 back end");
  return *target;
}

/// The names of all CPUs that LLVM can compile for.
static std::vector<std::string> getNames(const Target &target) {
  std::vector<std::string> names{"native"};
  std::unique_ptr<MCSubtargetInfo> info(
      target.createMCSubtargetInfo(Triple(triple), "", ""));
  if (info)
    for (const SubtargetSubTypeKV &cpu : info->getAllProcessorDescriptions())
      names.push_back(cpu.Key);
  return names;
}

polyrank::Result<Machine> Machine::find(const std::string &name) {
  const Target &target = getTarget();
  Machine machine{name, {}};
  if (name == "native") {
    StringMap<bool> host = sys::getHostCPUFeatures();
    auto hasAll = [&](ArrayRef<StringLiteral> level) {
      return all_of(level, [&](StringRef f) { return host.lookup(f); });
    };
    machine.cpu = hasAll(level3) && hasAll(level4) ? "x86-64-v4" : "x86-64-v3";
    if (!hasAll(level3))
      return polyrank::Error{"this machine (" + sys::getHostCPUName().str() +
                             ") lacks AVX2, FMA or F16C, which kernels need"};
  }
  // LLVM prints a message if it is given an unknown CPU: ask first.
  std::unique_ptr<MCSubtargetInfo> info(
      target.createMCSubtargetInfo(Triple(triple), "", ""));
  if (info && info->isCPUStringValid(machine.cpu))
    info.reset(target.createMCSubtargetInfo(Triple(triple), machine.cpu, ""));
  else
    info = nullptr;
  if (!info)
    return polyrank::Error{
        "LLVM knows no CPU named '" + name +
        "'; use native, x86-64-v3, x86-64-v4 or a name that `clang "
        "-print-supported-cpus` lists" +
        nearestWords(name, getNames(target))};
  auto needs = [&](ArrayRef<StringLiteral> level) {
    for (StringRef feature : level)
      if (info->checkFeatures(("+" + feature).str()))
        machine.features.push_back(feature.str());
  };
  needs(level3);
  if (machine.features.size() != std::size(level3))
    return polyrank::Error{"CPU '" + name +
                           "' lacks AVX2, FMA or F16C, which kernels need"};
  needs(level4);
  return machine;
}

StringRef Machine::getLevel() const {
  bool isLevel4 = all_of(level4, [&](StringRef feature) {
    return is_contained(features, feature);
  });
  return isLevel4 ? "x86-64-v4" : "x86-64-v3";
}

std::unique_ptr<TargetMachine> Machine::createTargetMachine() const {
  TargetOptions options;
  // a * b + c keeps both roundings unless the program contains an fma.
  options.AllowFPOpFusion = FPOpFusion::Strict;
  options.FunctionSections = true;
  std::string attributes;
  for (const std::string &feature : features)
    attributes += "+" + feature + ",";
  return std::unique_ptr<TargetMachine>(getTarget().createTargetMachine(
      Triple(triple), getLevel(), attributes, options, Reloc::PIC_,
      CodeModel::Small, CodeGenOptLevel::Aggressive));
}

/// Splits masked loads into loads of one register each. LLVM 22.1.8 splits them
/// itself at instruction selection. If it then finds that no lane of a part is
/// selected, it reads that part without a mask, and returns what it has read
/// instead of the pass-through value.
static void splitMaskedLoads(Module &module, unsigned registerBits) {
  SmallVector<IntrinsicInst *> loads;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<IntrinsicInst>(&instruction);
          call && call->getIntrinsicID() == Intrinsic::masked_load &&
          call->getType()->getPrimitiveSizeInBits() > registerBits)
        loads.push_back(call);
  for (IntrinsicInst *load : loads) {
    IRBuilder<> builder(load);
    auto *type = cast<FixedVectorType>(load->getType());
    Type *element = type->getElementType();
    unsigned lanes = registerBits / element->getPrimitiveSizeInBits();
    Value *address = load->getArgOperand(0), *mask = load->getArgOperand(1),
          *otherwise = load->getArgOperand(2);
    Align alignment = load->getParamAlign(0).valueOrOne();
    SmallVector<Value *> parts;
    for (unsigned first = 0; first < type->getNumElements(); first += lanes) {
      auto partOf = [&](Value *whole) {
        return builder.CreateShuffleVector(
            whole,
            to_vector(map_range(seq(first, first + lanes), [](unsigned i) {
              return static_cast<int>(i);
            })));
      };
      parts.push_back(builder.CreateMaskedLoad(
          FixedVectorType::get(element, lanes),
          builder.CreateConstGEP1_64(element, address, first),
          commonAlignment(alignment,
                          first * element->getPrimitiveSizeInBits() / 8),
          partOf(mask), partOf(otherwise)));
    }
    load->replaceAllUsesWith(concatenateVectors(builder, parts));
    load->eraseFromParent();
  }
}

/// Splits stores under a constant mask into stores without one. LLVM 22.1.8
/// makes a store of truncated integers under a mask one instruction. If a
/// single lane is selected it then stores the lane as it was before the
/// truncation, and so overwrites what follows. Stores of 32 bits and more are
/// left alone, unless they are of truncated integers: masks are faster.
static void splitMaskedStores(Module &module) {
  SmallVector<IntrinsicInst *> stores;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<IntrinsicInst>(&instruction);
      if (!call || call->getIntrinsicID() != Intrinsic::masked_store ||
          !isa<Constant>(call->getArgOperand(2)))
        continue;
      Value *value = call->getArgOperand(0);
      if (value->getType()->getScalarSizeInBits() < 32 || isa<TruncInst>(value))
        stores.push_back(call);
    }
  for (IntrinsicInst *store : stores) {
    IRBuilder<> builder(store);
    Value *value = store->getArgOperand(0), *address = store->getArgOperand(1);
    auto *mask = cast<Constant>(store->getArgOperand(2));
    auto *type = cast<FixedVectorType>(value->getType());
    unsigned lanes = type->getNumElements();
    unsigned bytes = type->getScalarSizeInBits() / 8;
    Align alignment = store->getParamAlign(1).valueOrOne();
    auto isStored = [&](unsigned lane) {
      return lane < lanes && mask->getAggregateElement(lane)->isOneValue();
    };
    for (unsigned first = 0; first < lanes;) {
      if (!isStored(first)) {
        ++first;
        continue;
      }
      // The largest aligned power of two of lanes that are all stored.
      unsigned count = 1;
      while (first % (2 * count) == 0 &&
             all_of(seq(first + count, first + 2 * count), isStored))
        count *= 2;
      Value *part = value;
      if (count == 1)
        part = builder.CreateExtractElement(value, first);
      else if (count < lanes)
        part = builder.CreateShuffleVector(
            value,
            to_vector(map_range(seq(first, first + count), [](unsigned i) {
              return static_cast<int>(i);
            })));
      builder.CreateAlignedStore(
          part,
          builder.CreateConstGEP1_64(type->getElementType(), address, first),
          commonAlignment(alignment, uint64_t(first) * bytes));
      first += count;
    }
    store->eraseFromParent();
  }
}

mlir::FailureOr<std::string> Machine::compile(Module &module,
                                              std::string *assembly) const {
  std::unique_ptr<TargetMachine> target = createTargetMachine();
  module.setTargetTriple(Triple(triple));
  module.setDataLayout(target->createDataLayout());
  bool isWide = is_contained(features, "avx512f");
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr("prefer-vector-width", isWide ? "512" : "256");
    function.addFnAttr("target-cpu", getLevel());
    function.addFnAttr("tune-cpu", cpu);
  }

  splitMaskedLoads(module, isWide ? 512 : 256);

  // Loops are vectors already; vectorisers would only take time, and unrolled
  // bodies of many vectors spill registers.
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder(target.get(), tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
  // Masks of rests are constants by now.
  splitMaskedStores(module);

  auto write = [&](Module &module, CodeGenFileType type) {
    SmallString<0> bytes;
    raw_svector_ostream os(bytes);
    legacy::PassManager passes;
    if (target->addPassesToEmitFile(passes, os, nullptr, type))
      return std::string();
    passes.run(module);
    return std::string(bytes);
  };
  if (assembly) {
    raw_string_ostream os(*assembly);
    module.print(os, nullptr);
    *assembly += write(*CloneModule(module), CodeGenFileType::AssemblyFile);
  }
  std::string object = write(module, CodeGenFileType::ObjectFile);
  if (object.empty())
    return mlir::failure();
  return object;
}
