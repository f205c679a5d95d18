// The interfaces between the compiler and the devices that its programs run on.

#include "compiler/target/Target.h"

using namespace mlir;
using namespace polyrank;

#include "compiler/target/TargetInterface.cpp.inc"

FailureOr<target::TargetInterface> target::getTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  rank::MachineAttr machine = rank::getMachine(module);
  Attribute attribute = machine ? machine.getTarget() : Attribute();
  if (!attribute)
    attribute = op->getContext()
                    ->getLoadedDialect<rank::RankDialect>()
                    ->getDefaultTarget();
  if (!attribute)
    return module.emitOpError("has no target in its '")
           << rank::machineAttrName
           << "', and this program was built without one";
  if (auto target = dyn_cast<TargetInterface>(attribute))
    return target;
  return module.emitOpError("has '")
         << rank::machineAttrName << "' with the target " << attribute
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

FailureOr<target::CommunicationTarget>
target::getCommunicationTarget(Operation *op) {
  return getTargetFor<CommunicationTarget>(op, "communication between ranks");
}
