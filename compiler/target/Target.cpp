// The interfaces between the compiler and the devices that its programs run on.

#include "compiler/target/Target.h"

#include "support/KeyValue.h"

using namespace mlir;
using namespace polyrank;

#include "compiler/target/TargetInterface.cpp.inc"

Result<target::Rates> target::parseRates(StringRef text) {
  constexpr PairForm form{"compute=GFLOPS,memory=GB_PER_S",
                          "compute=120,memory=16"};
  auto fail = [&] { return Error{"rates " + notPair(text, form).message}; };
  double gigaflops = 0, gigabytes = 0;
  if (auto both = numbersOf(text, 2)) { // the former spelling, 120:16
    gigaflops = (*both)[0];
    gigabytes = (*both)[1];
  } else {
    auto pairs = parsePairs(text, form);
    if (!pairs || pairs->size() != 2)
      return fail();
    for (const KeyValue &pair : *pairs) {
      auto number = numberOf(pair.value);
      double &rate = pair.key == "compute" ? gigaflops : gigabytes;
      if (!number || rate != 0 ||
          (pair.key != "compute" && pair.key != "memory"))
        return fail();
      rate = *number;
    }
  }
  // Limits of real machines, since times are integers.
  if (!(gigaflops >= 1e-3 && gigaflops <= 1e7) ||
      !(gigabytes >= 1e-3 && gigabytes <= 1e6))
    return Error{"rates '" + text.str() +
                 "': from 1e-3 to 1e7 GFLOP/s and from 1e-3 to 1e6 GB/s are "
                 "possible"};
  return Rates{gigaflops * 1e9, gigabytes * 1e9};
}

FailureOr<target::TargetInterface> target::getTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Attribute attribute = module->getAttr(rank::targetAttrName);
  if (!attribute)
    attribute = op->getContext()
                    ->getLoadedDialect<rank::RankDialect>()
                    ->getDefaultTarget();
  if (!attribute)
    return module.emitOpError("has no '")
           << rank::targetAttrName
           << "', and this program was built without a target";
  if (auto target = dyn_cast<TargetInterface>(attribute))
    return target;
  return module.emitOpError("has '")
         << rank::targetAttrName << "' " << attribute
         << ", for which this program can make no code";
}

FailureOr<kernel::LoopsOp> target::loopsOf(rank::KernelOp kernel) {
  auto loops = kernel.getBody().front().getOps<kernel::LoopsOp>();
  if (!llvm::hasSingleElement(loops))
    return kernel.emitOpError("is not one set of loops: run lower-kernels");
  return *loops.begin();
}

void target::setInPlace(rank::KernelOp kernel, kernel::LoopsOp loops,
                        kernel::ThreadWork work) {
  Builder builder(kernel.getContext());
  SmallVector<Attribute> inPlace;
  for (unsigned r = 0, n = loops->getNumResults(); r < n; ++r) {
    SmallVector<int64_t> arguments;
    for (unsigned a = 0, m = loops->getNumOperands(); a < m; ++a)
      if (kernel::mayAlias(loops, r, a, work))
        arguments.push_back(a);
    inPlace.push_back(builder.getDenseI64ArrayAttr(arguments));
  }
  kernel.setInPlaceAttr(builder.getArrayAttr(inPlace));
}

/// The target if it has the interface, whose purpose an error names.
template <typename Interface>
static FailureOr<Interface> getTargetFor(Operation *op, StringRef purpose) {
  FailureOr<target::TargetInterface> target = target::getTarget(op);
  if (failed(target))
    return failure();
  if (auto found = dyn_cast<Interface>(Attribute(*target)))
    return found;
  return op->emitOpError("is for the target '")
         << target->getName() << "', which has no " << purpose;
}

FailureOr<target::KernelTarget> target::getKernelTarget(Operation *op) {
  return getTargetFor<KernelTarget>(op, "code for kernels");
}

FailureOr<target::LibraryTarget> target::getLibraryTarget(Operation *op) {
  return getTargetFor<LibraryTarget>(op, "library of GEMMs");
}
