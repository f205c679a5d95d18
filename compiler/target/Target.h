// The interfaces between the compiler and the devices that its programs run on.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

namespace polyrank::runtime {
struct CommunicatorProperties;
} // namespace polyrank::runtime
namespace polyrank::runtime::plan {
enum class ImageFormat : int8_t;
struct CallT;
struct LaunchT;
} // namespace polyrank::runtime::plan

namespace polyrank::target {

class KernelCache;

/// What a target measured of loops that may become a kernel. Only the target
/// that made it knows what is in it.
class KernelMeasure {
public:
  virtual ~KernelMeasure() = default;
};
using KernelMeasurePtr = std::shared_ptr<const KernelMeasure>;

/// The rates that a rank reaches, for timelines. They are not measured, so that
/// compiling a program twice gives the same plan.
struct Rates {
  double flopsPerSecond; // in products of f32
  double bytesPerSecond; // of memory that kernels read and write
};

/// A kernel of an image in the plan, with what its launches cost. It takes the
/// buffers of the kernel's arguments, then of its results.
struct CompiledKernel {
  std::string symbol;
  int64_t flops = 0, bytesRead = 0, bytesWritten = 0;
};

/// How kernels are compiled, beside what the module says.
struct CompileSettings {
  /// Where the intermediate forms of each kernel are written, for people;
  /// empty: nowhere. Then `cache` is not asked, which has only their code.
  std::string dumpDirectory = "";
  /// Keeps the code of kernels; null: each is compiled.
  KernelCache *cache = nullptr;
};

struct CompiledKernels {
  /// The bytes of the plan's image; empty if there is no kernel.
  std::string image;
  runtime::plan::ImageFormat format{};
  std::vector<CompiledKernel> kernels;
  /// The machine that the image was compiled for, and the features that it
  /// needs, by the names that the target's device knows.
  std::string machine;
  std::vector<std::string> features;
};

} // namespace polyrank::target

#include "compiler/target/TargetInterface.h.inc"

namespace polyrank::target {

/// The target of the machine (`rank.machine`) of the module around `op`, or
/// else the rank dialect's default. Emits an error if the attribute is no
/// target, or is one that this program was built without.
mlir::FailureOr<TargetInterface> getTarget(mlir::Operation *op);
/// The same, if it computes kernels; emits an error if not.
mlir::FailureOr<KernelTarget> getKernelTarget(mlir::Operation *op);
/// The same, if it has libraries; emits an error if not.
mlir::FailureOr<LibraryTarget> getLibraryTarget(mlir::Operation *op);
/// The same, if its ranks communicate; emits an error if not.
mlir::FailureOr<CommunicationTarget>
getCommunicationTarget(mlir::Operation *op);

/// The loops of a kernel after lower-kernels. Emits an error at a kernel that
/// has other ops.
mlir::FailureOr<kernel::LoopsOp> loopsOf(rank::KernelOp kernel);
/// Sets `in_place` of a kernel for a target whose threads do such work.
void setInPlace(rank::KernelOp kernel, kernel::LoopsOp loops,
                kernel::ThreadWork work);

} // namespace polyrank::target
