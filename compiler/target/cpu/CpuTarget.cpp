// The CPU target: kernels are vector code, library calls are oneDNN's.

#include "compiler/target/cpu/CpuTarget.h"

#include "compiler/target/Target.h"
#include "compiler/target/cpu/AttentionLibrary.h"
#include "compiler/target/cpu/ChooseCalls.h"
#include "compiler/target/cpu/CompileKernels.h"
#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/KernelSchedule.h"
#include "compiler/target/cpu/LibraryCalls.h"
#include "compiler/target/cpu/Machine.h"
#include "compiler/target/math/ExpandMath.h"
#include "runtime/device/cpu/Gemm.h"
#include "runtime/plan/CommunicatorProperties.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

/// The size of a cache line, in bytes.
static constexpr int64_t cacheLine = 64;
/// Kernels with more values for each point cost more to compile than they save.
static constexpr size_t mostValues = 256;
/// Ops of one kernel are at most this far apart, so that fusion does not keep
/// values in memory for long.
static constexpr int64_t fusionDistance = 256;
/// In a loop of at least this many iterations, transposing a matrix once costs
/// less than the library's transpose of it in each iteration.
static constexpr int64_t manyIterations = 8;

/// The machine on which the compiler runs.
static constexpr StringLiteral nativeMachine = "native";

static std::string machineOf(Attribute target) {
  return cast<TargetAttr>(target).getMachine().str();
}

namespace {
struct CpuTarget
    : target::TargetInterface::ExternalModel<CpuTarget, TargetAttr> {
  StringRef getName(Attribute) const { return "cpu"; }

  Result<void> checkMachine(Attribute target) const {
    auto machine = Machine::find(machineOf(target));
    return machine ? Result<void>() : machine.error();
  }

  /// A cache line, which is what kernels fetch and oneDNN wants for scratch.
  int64_t getAlignment(Attribute) const { return cacheLine; }

  /// A core with 256-bit vectors at 3 GHz multiplies at some 60 of its 96
  /// GFLOP/s, and gets some 8 GB/s of a server's memory.
  target::Rates getRates(Attribute, int64_t threads) const {
    return {60e9 * threads, 8e9 * threads};
  }

  /// bf16 is multiplied in twice as wide vectors where the machine has the
  /// instructions, else in those of f32, as f16 is.
  double getProductSpeed(Attribute target, Type elementType) const {
    return elementType.isBF16() && isNative(target) &&
                   runtime::hasNarrowMatmul(ElementType::BF16, ElementType::F32)
               ? 2
               : 1;
  }
};

/// How a core runs loops that may become a kernel.
struct CpuMeasure : target::KernelMeasure {
  /// True if the kernel is larger than is worthwhile: large kernels take long
  /// to compile and run out of registers. Ops that are one kernel in any case
  /// may be.
  bool isTooLarge;
  /// The number of elements that are loaded and stored one by one, because they
  /// are not adjacent in memory.
  int64_t strided;
  /// True if the kernel walks in narrow strips across the rows of what it
  /// reads, as a sum over rows does.
  bool isInStrips;
  /// True if a result has an element for each point of the iteration space,
  /// reduced variables included.
  bool storesFull;

  explicit CpuMeasure(LoopsOp loops) {
    KernelSchedule schedule = scheduleLoops(loops);
    isTooLarge = loops.countValues() > mostValues;
    strided = stridedAccesses(loops, schedule);
    isInStrips = schedule.kind == KernelSchedule::Kind::Column;
    storesFull = llvm::any_of(loops.getStores(), [&](kernel::StoreOp store) {
      return loops.isFull(store);
    });
  }
};

struct CpuKernels
    : target::KernelTarget::ExternalModel<CpuKernels, TargetAttr> {
  bool hasCode(Attribute, Operation *op) const { return target::hasCode(op); }

  target::KernelMeasurePtr measureKernel(Attribute, LoopsOp loops) const {
    return std::make_shared<CpuMeasure>(loops);
  }

  bool isBetterAsOne(Attribute, const target::KernelMeasure &ofMerged,
                     const target::KernelMeasure &ofFirst,
                     const target::KernelMeasure &ofSecond) const {
    const auto &merged = static_cast<const CpuMeasure &>(ofMerged);
    const auto &first = static_cast<const CpuMeasure &>(ofFirst);
    const auto &second = static_cast<const CpuMeasure &>(ofSecond);
    if (merged.isTooLarge || merged.strided > first.strided + second.strided)
      return false;
    // Narrow strips are right for sums over rows, but wrong for anything that
    // could run along the rows.
    return !merged.isInStrips || !merged.storesFull ||
           (first.isInStrips && second.isInStrips);
  }

  int64_t getFusionDistance(Attribute) const { return fusionDistance; }

  int64_t getSumPart(Attribute, graph::ReduceOp sum) const {
    return chooseSumPart(sum);
  }

  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    return cpu::scheduleKernel(kernel);
  }

  FailureOr<target::CompiledKernels>
  compileKernels(Attribute target, ModuleOp module,
                 const target::CompileSettings &settings) const {
    return cpu::compileKernels(module, machineOf(target), settings);
  }

  LogicalResult writeLaunch(Attribute, rank::KernelOp kernel,
                            runtime::plan::LaunchT &written) const {
    return cpu::writeLaunch(kernel, written);
  }
};

struct CpuLibraries
    : target::LibraryTarget::ExternalModel<CpuLibraries, TargetAttr> {
  Result<void> checkCall(Attribute, rank::LibraryCallOp call) const {
    return cpu::checkCall(call);
  }

  bool isFasterThanParts(Attribute, rank::LibraryCallOp call) const {
    return cpu::isFasterThanParts(call);
  }

  void chooseCalls(Attribute, ArrayRef<rank::LibraryCallOp> calls,
                   int64_t threads, bool measure) const {
    cpu::chooseCalls(calls, threads, measure);
  }

  FailureOr<int64_t> getScratchBytes(Attribute, rank::LibraryCallOp call,
                                     int64_t threads) const {
    return cpu::getScratchBytes(call, threads);
  }

  LogicalResult writeCall(Attribute, rank::LibraryCallOp call,
                          runtime::plan::CallT &written) const {
    return cpu::writeCall(call, written);
  }

  double estimateProducts(Attribute, int64_t m, int64_t n, int64_t k,
                          int64_t products) const {
    return cpu::estimateProducts(m, n, k, products);
  }

  /// Each byte is read and written at 10 bytes a nanosecond.
  double estimateCopy(Attribute, int64_t bytes) const {
    return 0.2 * static_cast<double>(bytes);
  }

  /// Products of few rows read a matrix fastest if the contracted dim comes
  /// first; otherwise oneDNN transposes it in each iteration.
  bool isBetterTransposed(Attribute, graph::MatmulOp product,
                          int64_t iterations) const {
    return iterations >= manyIterations &&
           product.getRhsContract() == ArrayRef<int64_t>(1);
  }
};

/// Ranks of one machine, which reach each other's memory.
struct CpuCommunication
    : target::CommunicationTarget::ExternalModel<CpuCommunication, TargetAttr> {
  const runtime::CommunicatorProperties &getCommunicator(Attribute) const {
    return runtime::shmProperties;
  }
};

} // namespace

bool cpu::isNative(Attribute target) {
  auto known = dyn_cast<TargetAttr>(target);
  return known && known.getMachine() == nativeMachine;
}

Attribute cpu::parseTarget(MLIRContext &context, StringRef machine) {
  return TargetAttr::get(&context,
                         machine.empty() ? StringRef(nativeMachine) : machine);
}

void cpu::registerTarget(DialectRegistry &registry) {
  registerCodegenDialects(registry);
  registry.insert<CpuDialect>();
  registry.addExtension(+[](MLIRContext *context, rank::RankDialect *rank) {
    context->getOrLoadDialect<CpuDialect>();
    TargetAttr::attachInterface<CpuTarget, CpuKernels, CpuLibraries,
                                CpuCommunication>(*context);
    rank->setDefaultTarget(TargetAttr::get(context, nativeMachine));
  });
}
