// The symbols of a module, for those who look up many.

#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace polyrank::graph {

/// The symbols of the module that an op is in, by name, as they were when this
/// was made. `mlir::SymbolTable` looks a symbol up by reading the names of all
/// that stand before it, so one for each argument takes the square of the
/// layers. Unlike an object of that class it takes modules that are wrong: of
/// symbols of one name it finds the first.
class Symbols {
public:
  explicit Symbols(mlir::Operation *from);

  /// Null where there is none; none are where no module is around the op.
  mlir::Operation *lookup(mlir::FlatSymbolRefAttr symbol) const {
    return ops.lookup(symbol.getAttr());
  }
  /// Null where it is no `Op` too.
  template <typename Op>
  Op lookup(mlir::FlatSymbolRefAttr symbol) const {
    return llvm::dyn_cast_if_present<Op>(lookup(symbol));
  }

private:
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> ops;
};

} // namespace polyrank::graph
