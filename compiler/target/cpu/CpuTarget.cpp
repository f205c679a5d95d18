// The cores of a CPU: kernels are vector code, products oneDNN's.

#include "compiler/target/cpu/CpuTarget.h"

#include "compiler/target/Target.h"
#include "compiler/target/cpu/ChooseCalls.h"
#include "compiler/target/cpu/CompileKernels.h"
#include "compiler/target/cpu/ExpandMath.h"
#include "compiler/target/cpu/GemmLibrary.h"
#include "compiler/target/cpu/Machine.h"
#include "compiler/target/cpu/Schedule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

namespace {
struct CpuTarget
    : target::TargetInterface::ExternalModel<CpuTarget, rank::CpuAttr> {
  StringRef getName(Attribute) const { return "cpu"; }

  LogicalResult checkMachine(Attribute target, std::string &reason) const {
    return Machine::find(machineOf(target), reason);
  }

  bool hasCode(Attribute, Operation *op) const { return cpu::hasCode(op); }

  std::optional<target::KernelMeasure> measureKernel(Attribute,
                                                     LoopsOp loops) const {
    Schedule schedule = scheduleLoops(loops);
    return target::KernelMeasure{
        loops.countValues(), stridedAccesses(loops, schedule),
        schedule.kind == Schedule::Kind::Column,
        llvm::any_of(loops.getStores(), [&](kernel::StoreOp store) {
          return loops.isFull(store);
        })};
  }

  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    return cpu::scheduleKernel(kernel);
  }

  FailureOr<target::CompiledKernels>
  compileKernels(Attribute target, ModuleOp module,
                 StringRef dumpDirectory) const {
    return cpu::compileKernels(module, machineOf(target), dumpDirectory);
  }

  void chooseCalls(Attribute, ArrayRef<rank::GemmOp> gemms, int64_t threads,
                   bool measure) const {
    cpu::chooseCalls(gemms, threads, measure);
  }

  /// A core with 256-bit vectors at 3 GHz multiplies at some 60 of its 96
  /// GFLOP/s, and gets some 8 GB/s of a server's memory.
  target::Rates getRates(Attribute, int64_t threads) const {
    return {60e9 * threads, 8e9 * threads};
  }

  FailureOr<int64_t> getScratchBytes(Attribute, rank::GemmOp gemm,
                                     int64_t threads) const {
    return getGemmScratch(gemm, threads);
  }

private:
  static std::string machineOf(Attribute target) {
    return cast<rank::CpuAttr>(target).getMachine().str();
  }
};
} // namespace

void cpu::registerTarget(DialectRegistry &registry) {
  registerCodegenDialects(registry);
  registry.addExtension(+[](MLIRContext *context, rank::RankDialect *) {
    rank::CpuAttr::attachInterface<CpuTarget>(*context);
  });
}
