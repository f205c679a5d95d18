// Turns the code of a GPU's kernels into that of their twins.

#include "test/compiler/target/cuda/TwinRewriter.h"

#include <algorithm>
#include <cstring>

#include "test/compiler/target/cuda/TwinCalls.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Regex.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::twin;

/// The most bytes that a thread accesses at once.
static constexpr uint64_t mostBytes = 16;

namespace {
/// Turns a GPU's module into one of functions for this CPU.
class Rewriter {
public:
  Rewriter(llvm::Module &module, TwinCode &code) : module(module), code(code) {}

  std::string run();

private:
  void addAccess(Instruction &instruction, Value *address, Type *type,
                 Align alignment, bool isWrite);
  bool addMaskedAccess(IntrinsicInst &call);
  std::string rewriteCall(CallInst &call);
  void addEntry(Function &kernel);
  FunctionCallee declare(StringRef name, FunctionType *type, void *function) {
    code.symbols.push_back({name.str(), function});
    return module.getOrInsertFunction(name, type);
  }
  ConstantInt *makeNumber(uint64_t value) {
    return ConstantInt::get(Type::getInt32Ty(module.getContext()), value);
  }

  llvm::Module &module;
  TwinCode &code;
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

/// The same for a vector of which a constant mask selects some elements: what
/// LLVM makes of adjacent accesses with gaps between them. Others are no such
/// access.
bool Rewriter::addMaskedAccess(IntrinsicInst &call) {
  bool isWrite = call.getIntrinsicID() == Intrinsic::masked_store;
  if (!isWrite && call.getIntrinsicID() != Intrinsic::masked_load)
    return false;
  unsigned place = isWrite ? 1 : 0;
  auto *mask = dyn_cast<Constant>(call.getArgOperand(place + 1));
  if (!mask)
    return false;
  auto *type = cast<FixedVectorType>(isWrite ? call.getArgOperand(0)->getType()
                                             : call.getType());
  uint64_t size =
      module.getDataLayout().getTypeStoreSize(type->getElementType());
  Align stated = call.getParamAlign(place).valueOrOne();
  IRBuilder<> builder(&call);
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    uint64_t alignment =
        std::min(commonAlignment(stated, i * size).value(), mostBytes);
    if (mask->getAggregateElement(i)->isOneValue())
      builder.CreateCall(
          isWrite ? write : read,
          {builder.CreateConstGEP1_64(type->getElementType(),
                                      call.getArgOperand(place), i),
           makeNumber(size), makeNumber(alignment), makeNumber(nextSite++)});
  }
  return true;
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
  if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
      intrinsic && addMaskedAccess(*intrinsic))
    return "";
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
  code.kernels[kernel.getName()] = arguments.size();
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

std::string twin::printWithoutSpaces(const llvm::Module &module) {
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

std::string twin::rewriteModule(llvm::Module &module, TwinCode &code) {
  return Rewriter(module, code).run();
}
