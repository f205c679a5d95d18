// The messages and times of a compilation, as text while it runs and as one
// JSON object at its end.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/sharding/Why.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::driver {

struct Message {
  std::string severity; // error, warning or note
  std::string where;    // in the user's model
  std::string text;
  std::vector<std::string> notes;

  explicit Message(mlir::Diagnostic &diagnostic);
};

/// One run of a pass, or of a stage of the compiler that is not made of passes.
struct TimedPass {
  std::string stage, pass;
  double seconds = 0;
  bool failed = false;
};

/// Records the time of each pass of a stage of the compiler, and whether it
/// failed.
class PassTimer : public mlir::PassInstrumentation {
public:
  PassTimer(std::string stage, std::vector<TimedPass> &passes)
      : stage(std::move(stage)), passes(passes) {}

  void runBeforePass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override;

private:
  void finish(mlir::Pass *pass, bool failed);

  std::string stage;
  std::vector<TimedPass> &passes;
  std::vector<double> starts;
};

/// Seconds of a monotonic clock.
double now();

/// Where the code of the kernels came from.
struct KernelReport {
  std::string folder; // of --kernel-cache
  int64_t found = 0, compiled = 0;
};

struct CompileReport {
  std::vector<Message> messages;
  std::vector<TimedPass> passes;
  /// `sharding.objective` of the step; null before the layouts are chosen.
  sharding::ObjectiveAttr objective;
  std::vector<sharding::Replicated> replicated;
  /// With --kernel-cache only.
  std::optional<KernelReport> kernels;
};

/// A table of the times of all passes and their sum, for `--timing`, and where
/// kernels came from.
std::string describeTimes(const CompileReport &report);

/// The report "compile" of docs/reports.md. `plan` is the file that was
/// written; empty if the compilation failed.
std::string toJson(const CompileReport &report, llvm::StringRef model,
                   llvm::StringRef plan, int machines);

/// A summary of the plan that was written: what one of its ranks stores and
/// sends, and with several machines what crosses them.
std::string describePlan(llvm::StringRef plan, int machines);

} // namespace polyrank::driver
