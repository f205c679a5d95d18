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
  /// What a kernel takes beside its bytes.
  double launchSeconds = 0;
};

/// A kernel of the plan's images, with what its launches cost. It takes the
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
  /// The program that makes machine code of a GPU's kernels; empty: it is
  /// looked for; "none": there is none.
  std::string assembler = "";
};

/// What a GPU must know to launch a kernel of an image, and what its assembler
/// says of the code.
struct CompiledEntry {
  std::string symbol; // the kernel's name in the image
  std::string kind;   // how its threads share the loops, for reports
  int64_t threads = 0, sharedBytes = 0;
  /// What all threads of a launch read and write, and what a thread reads
  /// before it needs any of it, in bytes, for reports.
  int64_t requestedBytes = 0, loadedBytes = 0;
  /// Of each thread; 0 where a driver assembles the code.
  int64_t registers = 0, spilledBytes = 0, stackBytes = 0;
};

/// All kernels, compiled for one kind of machine.
struct CompiledImage {
  /// The bytes of the plan's image; empty if there is no kernel.
  std::string bytes;
  /// `bytes` is a zstd frame of so many bytes; 0: it is what the format says.
  uint64_t unpacked = 0;
  runtime::plan::ImageFormat format{};
  /// The machine that the image was compiled for, and the features that it
  /// needs, by the names that the target's device knows.
  std::string machine;
  std::vector<std::string> features;
  /// One for each kernel, on a GPU.
  std::vector<CompiledEntry> entries;
};

struct CompiledKernels {
  /// At least one, the best one first.
  std::vector<CompiledImage> images;
  std::vector<CompiledKernel> kernels;
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
