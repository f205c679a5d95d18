// What the compiler asks of the devices that its programs run on.

#include "compiler/target/Target.h"

using namespace mlir;
using namespace polyrank;

#include "compiler/target/TargetInterface.cpp.inc"

FailureOr<target::TargetInterface> target::getTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Attribute attribute = module->getAttr(rank::targetAttrName);
  if (!attribute)
    attribute = rank::CpuAttr::get(op->getContext(), "native");
  if (auto target = dyn_cast<TargetInterface>(attribute))
    return target;
  return module.emitOpError("has '")
         << rank::targetAttrName << "' " << attribute
         << ", for which this program can make no code";
}
