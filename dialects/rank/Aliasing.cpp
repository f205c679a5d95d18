// A cache of where commands may write a result over an operand.

#include "dialects/rank/Aliasing.h"

using namespace mlir;
using namespace polyrank;

runtime::InPlace rank::Aliasing::get(Operation *op, unsigned operand,
                                     unsigned result) const {
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    if (!symbols)
      symbols.emplace(from);
    auto kernel = symbols->lookup<KernelOp>(launch.getKernelAttr());
    return llvm::is_contained(kernel.getInPlace(result), operand)
               ? runtime::InPlace::Same
               : runtime::InPlace::Never;
  }
  auto command = dyn_cast<CommandOp>(op);
  return command ? command.getInPlace(operand, result)
                 : runtime::InPlace::Never;
}
