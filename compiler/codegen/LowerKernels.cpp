// lower-kernels: lowers the ops of kernels to loops over elements, which the
// target schedules.

#include "compiler/codegen/BuildLoops.h"
#include "compiler/codegen/Passes.h"
#include "compiler/target/Target.h"

namespace polyrank::codegen {
#define GEN_PASS_DEF_LOWERKERNELS
#include "compiler/codegen/Passes.h.inc"
} // namespace polyrank::codegen

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

namespace {
class LowerKernels : public codegen::impl::LowerKernelsBase<LowerKernels> {
public:
  using LowerKernelsBase::LowerKernelsBase;
  void runOnOperation() override;

private:
  LogicalResult lower(rank::KernelOp kernel, target::KernelTarget target);
};
} // namespace

LogicalResult LowerKernels::lower(rank::KernelOp kernel,
                                  target::KernelTarget target) {
  Block &block = kernel.getBody().front();
  Operation *terminator = block.getTerminator();
  auto isLoops = [](Operation &op) { return isa<kernel::LoopsOp>(op); };
  if (llvm::any_of(block, isLoops))
    return kernel.emitOpError("has loops already");
  SmallVector<Value> arguments(block.getArguments());
  SmallVector<Value> results(terminator->getOperands());
  OpBuilder builder(terminator);
  std::string reason;
  auto hasCode = [&](Operation *op) { return target.hasCode(op); };
  FailureOr<kernel::LoopsOp> loops = buildLoops(
      builder, kernel.getLoc(), {arguments, results}, hasCode, reason);
  if (failed(loops))
    return kernel.emitOpError("cannot be one set of loops: ") << reason;
  terminator->setOperands(loops->getResults());
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != terminator && &op != *loops)
      op.erase();
  return target.scheduleKernel(kernel);
}

void LowerKernels::runOnOperation() {
  FailureOr<target::KernelTarget> target =
      target::getKernelTarget(getOperation());
  if (failed(target))
    return signalPassFailure();
  for (rank::KernelOp kernel : getOperation().getOps<rank::KernelOp>())
    if (failed(lower(kernel, *target)))
      return signalPassFailure();
}
