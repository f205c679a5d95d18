// A fast lookup of the symbols of a module.

#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace polyrank::graph {

/// The symbols of the module around an op, by name, as of the time of
/// construction. `mlir::SymbolTable` finds a symbol by comparing the names of
/// all ops before it, so one lookup for each argument would take time quadratic
/// in the number of layers. Unlike an object of that class, this one accepts
/// invalid modules: of several symbols with one name it finds the first.
class Symbols {
public:
  explicit Symbols(mlir::Operation *from);

  /// Returns null if there is no such symbol, or no module around the op.
  mlir::Operation *lookup(mlir::FlatSymbolRefAttr symbol) const {
    return ops.lookup(symbol.getAttr());
  }
  /// Also returns null if the symbol is not an `Op`.
  template <typename Op>
  Op lookup(mlir::FlatSymbolRefAttr symbol) const {
    return llvm::dyn_cast_if_present<Op>(lookup(symbol));
  }

private:
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> ops;
};

} // namespace polyrank::graph
