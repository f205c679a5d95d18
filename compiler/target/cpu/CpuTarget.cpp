// The CPU target: kernels are vector code, library calls are oneDNN's.

#include "compiler/target/cpu/CpuTarget.h"

#include "compiler/target/Target.h"
#include "compiler/target/cpu/ChooseCalls.h"
#include "compiler/target/cpu/CompileKernels.h"
#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/KernelSchedule.h"
#include "compiler/target/cpu/LibraryCalls.h"
#include "compiler/target/cpu/Machine.h"
#include "compiler/target/math/ExpandMath.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

/// The size of a cache line, in bytes.
static constexpr int64_t cacheLine = 64;
/// Kernels with more values for each point cost more to compile than they save.
static constexpr size_t mostValues = 256;

namespace {
struct CpuTarget
    : target::TargetInterface::ExternalModel<CpuTarget, TargetAttr> {
  StringRef getName(Attribute) const { return "cpu"; }

  Result<void> checkMachine(Attribute target) const {
    auto machine = Machine::find(machineOf(target));
    return machine ? Result<void>() : machine.error();
  }

  bool hasCode(Attribute, Operation *op) const { return target::hasCode(op); }

  std::optional<target::KernelMeasure> measureKernel(Attribute,
                                                     LoopsOp loops) const {
    KernelSchedule schedule = scheduleLoops(loops);
    return target::KernelMeasure{
        loops.countValues() > mostValues, stridedAccesses(loops, schedule),
        schedule.kind == KernelSchedule::Kind::Column,
        llvm::any_of(loops.getStores(), [&](kernel::StoreOp store) {
          return loops.isFull(store);
        })};
  }

  int64_t getSumPart(Attribute, int64_t count, int64_t results) const {
    return chooseSumPart(count, results);
  }

  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    return cpu::scheduleKernel(kernel);
  }

  FailureOr<target::CompiledKernels>
  compileKernels(Attribute target, ModuleOp module,
                 StringRef dumpDirectory) const {
    return cpu::compileKernels(module, machineOf(target), dumpDirectory);
  }

  double estimateProducts(Attribute, int64_t m, int64_t n, int64_t k,
                          int64_t products) const {
    return cpu::estimateProducts(m, n, k, products);
  }

  /// Each byte is read and written at 10 bytes a nanosecond.
  double estimateCopy(Attribute, int64_t bytes) const {
    return 0.2 * static_cast<double>(bytes);
  }

  /// A cache line, which is what kernels fetch and oneDNN wants for scratch.
  int64_t getAlignment(Attribute) const { return cacheLine; }

  Result<void> checkCall(Attribute, rank::LibraryCallOp call) const {
    return cpu::checkCall(call);
  }

  void chooseCalls(Attribute, ArrayRef<rank::LibraryCallOp> calls,
                   int64_t threads, bool measure) const {
    cpu::chooseCalls(calls, threads, measure);
  }

  /// A core with 256-bit vectors at 3 GHz multiplies at some 60 of its 96
  /// GFLOP/s, and gets some 8 GB/s of a server's memory.
  target::Rates getRates(Attribute, int64_t threads) const {
    return {60e9 * threads, 8e9 * threads};
  }

  FailureOr<int64_t> getScratchBytes(Attribute, rank::LibraryCallOp call,
                                     int64_t threads) const {
    return cpu::getScratchBytes(call, threads);
  }

  LogicalResult writeCall(Attribute, rank::LibraryCallOp call,
                          runtime::plan::CallT &written) const {
    return cpu::writeCall(call, written);
  }

private:
  static std::string machineOf(Attribute target) {
    return cast<TargetAttr>(target).getMachine().str();
  }
};
} // namespace

void cpu::registerTarget(DialectRegistry &registry) {
  registerCodegenDialects(registry);
  registry.insert<CpuDialect>();
  registry.addExtension(+[](MLIRContext *context, rank::RankDialect *rank) {
    context->getOrLoadDialect<CpuDialect>();
    TargetAttr::attachInterface<CpuTarget>(*context);
    rank->setDefaultTarget(TargetAttr::get(context, "native"));
  });
}
