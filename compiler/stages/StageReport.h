// What a remark says of the stages.

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

  /// In the order that was cut.
  void add(mlir::Operation *op, int64_t stage);
  /// Time, bound and gap, and a note for each stage.
  void emit(llvm::StringRef axis, llvm::StringRef schedule);

private:
  struct Stage {
    std::string first, last;
    int64_t ops = 0, flops = 0;
    /// Bytes of parameters that are its own, and that are another's.
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
