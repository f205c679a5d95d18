// How the kernels of a target run on this machine, for tests.

#pragma once

#include <memory>
#include <string>

#include "dialects/rank/Rank.h"
#include "test/compiler/target/schedule/EvaluateSchedule.h"
#include "test/random/Random.h"

namespace polyrank::target {

class Executor {
public:
  virtual ~Executor() = default;

  /// Makes the target known in every context with these dialects.
  virtual void registerTarget(mlir::DialectRegistry &registry) const = 0;
  /// The attribute of the target, for `rank.machine`.
  virtual mlir::Attribute getTarget(mlir::MLIRContext &context) const = 0;
  /// What schedules of the target mean.
  virtual mlir::FailureOr<ReductionOrder>
  getOrder(kernel::LoopsOp loops) const = 0;
  /// True if denormal floats of 32 bits are zero in a kernel.
  virtual bool flushesDenormals(rank::KernelOp kernel) const = 0;
  /// The kind of the loops, as the schedule has it: map, row, column, scatter.
  virtual std::string getKind(kernel::LoopsOp loops) const = 0;
  /// Gives loops another schedule of their kind. A target chooses only some of
  /// the schedules that it can run, and large ones for large tensors alone.
  virtual void vary(kernel::LoopsOp loops, test::Random &random) const = 0;
  /// Compiles the kernels of a module, which stays alive. Returns what is
  /// wrong; empty if nothing is.
  virtual std::string compile(mlir::ModuleOp module) = 0;
  /// Runs a kernel in several ways that may not matter. Returns what is wrong:
  /// each way must give the bytes of `expected`.
  virtual std::string check(rank::KernelOp kernel,
                            llvm::ArrayRef<Bytes> arguments,
                            llvm::ArrayRef<Bytes> expected, uint64_t seed) = 0;
  /// What was measured while kernels ran, as lines of text.
  virtual std::string getReport() const { return ""; }
};

std::unique_ptr<Executor> createCpuExecutor();

} // namespace polyrank::target
