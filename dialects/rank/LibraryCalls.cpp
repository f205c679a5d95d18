// The defaults and checks that all ops share which a library computes.

#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;

#include "dialects/rank/LibraryCallInterface.cpp.inc"

int64_t rank::getOperandAndResultBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type :
       llvm::concat<Type>(op->getOperandTypes(), op->getResultTypes()))
    bytes += getByteSize(type);
  return bytes;
}

Attribute rank::getCallKey(Operation *op) {
  MLIRContext *context = op->getContext();
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute :
       cast<DictionaryAttr>(op->getPropertiesAsAttribute()))
    if (!llvm::is_contained({"buffers", "scratch", "call"},
                            attribute.getName().getValue()))
      attributes.push_back(attribute);
  auto types =
      FunctionType::get(context, op->getOperandTypes(), op->getResultTypes());
  return ArrayAttr::get(context,
                        {op->getName().getIdentifier(), TypeAttr::get(types),
                         DictionaryAttr::get(context, attributes)});
}
