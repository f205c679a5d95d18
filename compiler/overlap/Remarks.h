// Remarks about the functions of a module, those that are alike together.

#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace polyrank::overlap {

/// Collects a remark for each function: `begin`, " at pipe=0 to 3" where
/// functions belong to coordinates of the mesh, and `end`. Functions with equal
/// texts share one remark.
class Remarks {
public:
  void add(mlir::func::FuncOp function, std::string begin, std::string end);
  /// Emits each remark at the first of its functions.
  void emit();

private:
  struct Remark {
    mlir::func::FuncOp first;
    std::string begin, end;
    std::vector<std::string> places;
  };
  std::vector<Remark> remarks;
};

} // namespace polyrank::overlap
