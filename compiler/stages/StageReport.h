// The remark about the stages of a pipeline.

#pragma once

#include <string>
#include <vector>

#include "compiler/stages/StageCut.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::stages {

class StageReport {
public:
  StageReport(mlir::func::FuncOp forward, const Cut &cut,
              llvm::ArrayRef<int64_t> coordinates)
      : forward(forward), cut(cut), coordinates(coordinates),
        stages(coordinates.size()) {}

  /// Adds an op; called in the order that was cut.
  void add(mlir::Operation *op, int64_t stage);
  /// Emits the time, its lower bound and the gap, with a note for each stage.
  void emit(llvm::StringRef axis, llvm::StringRef schedule);

private:
  struct Stage {
    std::string first, last;
    int64_t ops = 0, flops = 0;
    /// Bytes of parameters that the stage owns, and of those that it uses but
    /// another stage owns.
    int64_t owned = 0, borrowed = 0;
    int64_t sent = 0;
  };
  void countBytes();

  mlir::func::FuncOp forward;
  const Cut &cut;
  llvm::ArrayRef<int64_t> coordinates;
  std::vector<Stage> stages;
};

} // namespace polyrank::stages
