// The CUDA target: kernels are PTX and machine code of NVIDIA's GPUs.

#include "compiler/target/cuda/CudaTarget.h"

#include "compiler/target/Target.h"
#include "compiler/target/cuda/Architecture.h"
#include "compiler/target/cuda/CompileKernels.h"
#include "compiler/target/cuda/Cuda.h"
#include "compiler/target/cuda/GemmLibrary.h"
#include "compiler/target/cuda/KernelSchedule.h"
#include "compiler/target/cuda/LowerToLlvm.h"
#include "compiler/target/math/ExpandMath.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "runtime/plan/CommunicatorProperties.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

/// Allocations of a GPU begin at multiples of so many bytes.
static constexpr int64_t bufferAlignment = 256;
/// Kernels with more values for each point, a function counted as many, or with
/// more sums run out of registers.
static constexpr size_t mostValues = 128, valuesOfFunction = 12,
                        mostReductions = 4;
/// What a thread loads before it computes is in registers, of which it has 255
/// of four bytes, and a multiprocessor 65,536 for all its threads.
static constexpr int64_t mostLoadedBytes = 256;
/// Ops of one kernel are at most this far apart, so that fusion does not keep
/// values in memory for long.
static constexpr int64_t fusionDistance = 256;
/// Fewer threads than this leave most of a GPU without work: a quarter of what
/// 132 multiprocessors run at a time.
static constexpr int64_t fewThreads = int64_t(132) * 512;

static std::vector<std::string> architecturesOf(Attribute target) {
  std::vector<std::string> names;
  for (StringAttr name : cast<TargetAttr>(target).getArchitectures())
    names.push_back(name.str());
  return names;
}

namespace {
struct CudaTarget
    : target::TargetInterface::ExternalModel<CudaTarget, TargetAttr> {
  StringRef getName(Attribute) const { return "cuda"; }

  Result<void> checkMachine(Attribute target) const {
    auto names = parseArchitectures(llvm::join(architecturesOf(target), ","));
    return names ? Result<void>() : names.error();
  }

  int64_t getAlignment(Attribute) const { return bufferAlignment; }

  /// What an H100 reaches of its 67 TFLOP/s in f32 and its 3.35 TB/s, and some
  /// microseconds from one kernel to the next.
  target::Rates getRates(Attribute, int64_t) const {
    return {50e12, 2.8e12, 3e-6};
  }

  /// Its tensor cores multiply floats of 16 bits; f32 stays f32.
  double getProductSpeed(Attribute, Type elementType) const {
    return elementType.getIntOrFloatBitWidth() == 16 ? 14 : 1;
  }
};

/// How a GPU runs loops that may become a kernel.
struct CudaMeasure : target::KernelMeasure {
  size_t values = 0, reductions = 0;
  double sectors;
  int64_t threads, sharedBytes, loadedBytes;

  explicit CudaMeasure(LoopsOp loops) {
    for (Operation &op : loops.getBlock()) {
      bool isFunction = isa<math::MathDialect>(op.getDialect()) &&
                        !isa<math::SqrtOp, math::AbsFOp, math::FloorOp>(op);
      values += isFunction ? valuesOfFunction : op.getNumResults();
      reductions += isa<kernel::ReduceOp>(op);
    }
    KernelSchedule schedule = scheduleLoops(loops);
    sectors = countSectors(loops, schedule);
    threads = schedule.numBlocks(loops) * schedule.threads;
    sharedBytes = schedule.countSharedBytes(loops);
    loadedBytes = countRequests(loops, schedule).loadedAtOnce;
  }
};

struct CudaKernels
    : target::KernelTarget::ExternalModel<CudaKernels, TargetAttr> {
  bool hasCode(Attribute, Operation *op) const { return target::hasCode(op); }

  target::KernelMeasurePtr measureKernel(Attribute, LoopsOp loops) const {
    return std::make_shared<CudaMeasure>(loops);
  }

  bool isBetterAsOne(Attribute, const target::KernelMeasure &ofMerged,
                     const target::KernelMeasure &ofFirst,
                     const target::KernelMeasure &ofSecond) const {
    const auto &merged = static_cast<const CudaMeasure &>(ofMerged);
    const auto &first = static_cast<const CudaMeasure &>(ofFirst);
    const auto &second = static_cast<const CudaMeasure &>(ofSecond);
    if (merged.values > mostValues || merged.reductions > mostReductions ||
        merged.sharedBytes > mostSharedBytes ||
        merged.loadedBytes > mostLoadedBytes ||
        merged.sectors > 1.01 * (first.sectors + second.sectors))
      return false;
    // What follows a sum of few rows has threads of its own.
    return merged.threads >= fewThreads || !first.reductions ||
           second.reductions || second.threads <= merged.threads;
  }

  int64_t getFusionDistance(Attribute) const { return fusionDistance; }

  int64_t getSumPart(Attribute, graph::ReduceOp sum) const {
    return chooseSumPart(sum);
  }

  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    return cuda::scheduleKernel(kernel);
  }

  FailureOr<target::CompiledKernels>
  compileKernels(Attribute target, ModuleOp module,
                 const target::CompileSettings &settings) const {
    return cuda::compileKernels(module, architecturesOf(target), settings);
  }

  LogicalResult writeLaunch(Attribute, rank::KernelOp kernel,
                            runtime::plan::LaunchT &written) const {
    return cuda::writeLaunch(kernel, written);
  }
};

struct CudaLibraries
    : target::LibraryTarget::ExternalModel<CudaLibraries, TargetAttr> {
  Result<void> checkCall(Attribute, rank::LibraryCallOp call) const {
    return cuda::checkCall(call);
  }

  bool isFasterThanParts(Attribute, rank::LibraryCallOp) const { return true; }

  void chooseCalls(Attribute, ArrayRef<rank::LibraryCallOp> calls, int64_t,
                   bool) const {
    cuda::chooseCalls(calls);
  }

  FailureOr<int64_t> getScratchBytes(Attribute, rank::LibraryCallOp call,
                                     int64_t) const {
    return cuda::getScratchBytes(call);
  }

  LogicalResult writeCall(Attribute, rank::LibraryCallOp call,
                          runtime::plan::CallT &written) const {
    return cuda::writeCall(call, written);
  }

  double estimateProducts(Attribute, int64_t m, int64_t n, int64_t k,
                          int64_t products) const {
    return cuda::estimateProducts(m, n, k, products);
  }

  double estimateCopy(Attribute, int64_t bytes) const {
    return cuda::estimateCopy(bytes);
  }

  /// cuBLASLt reads a transposed matrix as fast as any other.
  bool isBetterTransposed(Attribute, graph::MatmulOp, int64_t) const {
    return false;
  }
};

/// Ranks of one machine, which reach each other's memory.
struct CudaCommunication
    : target::CommunicationTarget::ExternalModel<CudaCommunication,
                                                 TargetAttr> {
  const runtime::CommunicatorProperties &getCommunicator(Attribute) const {
    return runtime::shmProperties;
  }
};

} // namespace

Attribute cuda::parseTarget(MLIRContext &context, StringRef architectures) {
  if (architectures.empty())
    architectures = defaultArchitectures;
  SmallVector<StringAttr> names;
  for (StringRef name : llvm::split(architectures, ','))
    names.push_back(StringAttr::get(&context, name.trim()));
  return TargetAttr::get(&context, names);
}

void cuda::registerTarget(DialectRegistry &registry) {
  registerCodegenDialects(registry);
  registry.insert<CudaDialect>();
  registry.addExtension(+[](MLIRContext *context, rank::RankDialect *) {
    context->getOrLoadDialect<CudaDialect>();
    TargetAttr::attachInterface<CudaTarget, CudaKernels, CudaLibraries,
                                CudaCommunication>(*context);
  });
}
