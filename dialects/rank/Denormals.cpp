// The attribute of the module that says how devices treat denormal numbers.

#include "dialects/rank/Denormals.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

static constexpr StringLiteral flushText = "flush", keepText = "keep";

Denormals rank::getDenormals(ModuleOp module) {
  auto text = module->getAttrOfType<StringAttr>(denormalsAttrName);
  return text && text.getValue() == keepText ? Denormals::Keep
                                             : Denormals::Flush;
}

void rank::setDenormals(ModuleOp module, Denormals denormals) {
  module->setAttr(
      denormalsAttrName,
      StringAttr::get(module.getContext(),
                      denormals == Denormals::Keep ? keepText : flushText));
}

bool rank::isDenormals(Attribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute);
  return text && (text.getValue() == flushText || text.getValue() == keepText);
}
