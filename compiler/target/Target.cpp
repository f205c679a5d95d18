// The interface between the compiler and the devices that its programs run on.

#include "compiler/target/Target.h"

using namespace mlir;
using namespace polyrank;

#include "compiler/target/TargetInterface.cpp.inc"

Result<target::Rates> target::parseRates(StringRef text) {
  auto [flops, bytes] = text.split(':');
  double gigaflops, gigabytes;
  if (flops.getAsDouble(gigaflops) || bytes.getAsDouble(gigabytes))
    return Error{"rates '" + text.str() +
                 "' are not GFLOPS:GB_PER_S, as in 120:16"};
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
    attribute = rank::CpuAttr::get(op->getContext(), "native");
  if (auto target = dyn_cast<TargetInterface>(attribute))
    return target;
  return module.emitOpError("has '")
         << rank::targetAttrName << "' " << attribute
         << ", for which this program can make no code";
}
