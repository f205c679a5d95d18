// A device with a thread for each element, as a target: what a second target
// needs, and nothing outside of this folder.

#include "compiler/target/Target.h"
#include "compiler/target/math/ExpandMath.h"
#include "runtime/plan/CommunicatorProperties.h"
#include "test/compiler/target/grid/Grid.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::grid;

#include "test/compiler/target/grid/GridDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "test/compiler/target/grid/GridAttrs.cpp.inc"

void GridDialect::initialize() { registerAttributes(); }

void GridDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "test/compiler/target/grid/GridAttrs.cpp.inc"
      >();
}

/// Fewer threads than this leave most of the device without work.
static constexpr int64_t wave = 64;
/// The most values for each point that a thread keeps in registers.
static constexpr size_t mostValues = 40;
/// The most threads that share a row.
static constexpr int64_t mostThreadsOfRow = 8;

namespace {
struct GridTarget
    : target::TargetInterface::ExternalModel<GridTarget, TargetAttr> {
  StringRef getName(Attribute) const { return "grid"; }
  Result<void> checkMachine(Attribute) const { return {}; }
  int64_t getAlignment(Attribute) const { return 256; }
  target::Rates getRates(Attribute, int64_t) const { return {1e13, 1e12}; }
  double getProductSpeed(Attribute, Type elementType) const {
    return elementType.getIntOrFloatBitWidth() == 16 ? 8 : 1;
  }
};

/// How many threads a kernel has, and what each does.
struct GridMeasure : target::KernelMeasure {
  size_t values;
  int64_t points;
  bool hasRows;

  explicit GridMeasure(kernel::LoopsOp loops)
      : values(loops.countValues()),
        points(loops.getNumPoints(/*ofReduced=*/false)),
        hasRows(loops.hasReductions()) {}
};

struct GridKernels
    : target::KernelTarget::ExternalModel<GridKernels, TargetAttr> {
  bool hasCode(Attribute, Operation *op) const { return target::hasCode(op); }

  target::KernelMeasurePtr measureKernel(Attribute,
                                         kernel::LoopsOp loops) const {
    return std::make_shared<GridMeasure>(loops);
  }

  /// What follows the sums of few rows, such as an update, has threads of its
  /// own; what comes before is computed by the threads that share a row.
  bool isBetterAsOne(Attribute, const target::KernelMeasure &ofMerged,
                     const target::KernelMeasure &ofFirst,
                     const target::KernelMeasure &ofSecond) const {
    const auto &merged = static_cast<const GridMeasure &>(ofMerged);
    const auto &first = static_cast<const GridMeasure &>(ofFirst);
    const auto &second = static_cast<const GridMeasure &>(ofSecond);
    if (merged.values > mostValues)
      return false;
    return merged.points >= wave || !first.hasRows || second.hasRows;
  }

  int64_t getFusionDistance(Attribute) const { return 64; }

  /// About as many parts as each has values, over whichever dims the sum is.
  int64_t getSumPart(Attribute, graph::ReduceOp sum) const {
    int64_t results =
        cast<RankedTensorType>(sum.getResult().getType()).getNumElements();
    int64_t count =
        cast<RankedTensorType>(sum.getInput().getType()).getNumElements() /
        results;
    if (results >= wave || count < 12)
      return 0;
    int64_t part = 1;
    while (part * part < count)
      ++part;
    return part;
  }

  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    FailureOr<kernel::LoopsOp> loops = target::loopsOf(kernel);
    if (failed(loops))
      return failure();
    int64_t threads =
        std::min(mostThreadsOfRow, loops->getNumPoints(/*ofReduced=*/true));
    loops->setScheduleAttr(ScheduleAttr::get(kernel.getContext(), threads));
    target::setInPlace(kernel, *loops, kernel::ThreadWork::PartOfRow);
    return success();
  }

  FailureOr<target::CompiledKernels>
  compileKernels(Attribute, ModuleOp module,
                 const target::CompileSettings &) const {
    return module.emitError("is for the target 'grid', whose kernels only the "
                            "evaluator runs");
  }

  LogicalResult writeLaunch(Attribute, rank::KernelOp kernel,
                            runtime::plan::LaunchT &) const {
    return kernel.emitOpError("is for the target 'grid', which has no device");
  }
};

struct GridLibrary
    : target::LibraryTarget::ExternalModel<GridLibrary, TargetAttr> {
  Result<void> checkCall(Attribute, rank::LibraryCallOp call) const {
    if (isa<rank::GemmOp, rank::AttentionOp, rank::AttentionGradOp>(*call))
      return {};
    return Error{"is no call of the target 'grid'"};
  }

  bool isFasterThanParts(Attribute, rank::LibraryCallOp) const { return true; }

  void chooseCalls(Attribute, ArrayRef<rank::LibraryCallOp> calls, int64_t,
                   bool) const {
    for (rank::LibraryCallOp call : calls)
      call.setCallAttr(CallAttr::get(call.getContext()));
  }

  /// A tile for each call, whatever its size.
  FailureOr<int64_t> getScratchBytes(Attribute, rank::LibraryCallOp,
                                     int64_t) const {
    return 1024;
  }

  LogicalResult writeCall(Attribute, rank::LibraryCallOp call,
                          runtime::plan::CallT &) const {
    return call.emitOpError("is for the target 'grid', which has no device");
  }

  /// Whole tiles of 16 x 16 results.
  double estimateProducts(Attribute, int64_t m, int64_t n, int64_t k,
                          int64_t products) const {
    return static_cast<double>(llvm::divideCeil(m, 16) *
                               llvm::divideCeil(n, 16) * k * products);
  }

  double estimateCopy(Attribute, int64_t bytes) const {
    return static_cast<double>(bytes) / 64;
  }

  /// The other way round than a CPU: the contracted dim last.
  bool isBetterTransposed(Attribute, graph::MatmulOp product,
                          int64_t iterations) const {
    return iterations > 1 && product.getRhsContract() == ArrayRef<int64_t>(0);
  }
};

/// Moves runs of bytes alone, and knows no borders.
constexpr runtime::CommunicatorProperties gridProperties = [] {
  runtime::CommunicatorProperties has = runtime::fullProperties("grid");
  has.kinds[static_cast<size_t>(runtime::CollectiveKind::Halo)] = false;
  has.hasStrides = false;
  return has;
}();

struct GridCommunication
    : target::CommunicationTarget::ExternalModel<GridCommunication,
                                                 TargetAttr> {
  const runtime::CommunicatorProperties &getCommunicator(Attribute) const {
    return gridProperties;
  }
};

} // namespace

void grid::registerTarget(DialectRegistry &registry) {
  registry.insert<GridDialect>();
  registry.addExtension(+[](MLIRContext *context, rank::RankDialect *rank) {
    context->getOrLoadDialect<GridDialect>();
    TargetAttr::attachInterface<GridTarget, GridKernels, GridLibrary,
                                GridCommunication>(*context);
    rank->setDefaultTarget(TargetAttr::get(context));
  });
}
