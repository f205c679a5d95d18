// A fast lookup of the symbols of a module.

#include "dialects/graph/Symbols.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace polyrank;

graph::Symbols::Symbols(Operation *from) {
  Operation *module = SymbolTable::getNearestSymbolTable(from);
  if (!module || module->getRegion(0).empty())
    return;
  StringRef attribute = SymbolTable::getSymbolAttrName();
  for (Operation &op : module->getRegion(0).front())
    if (auto name = op.getAttrOfType<StringAttr>(attribute))
      ops.try_emplace(name, &op);
}
