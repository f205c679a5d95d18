// The element types in which an imported model is computed: one decision for
// all formats.

#include "frontends/import/ElementTypes.h"

#include "dialects/graph/ElementTypes.h"

using namespace mlir;

namespace polyrank::frontends {

Type computedType(MLIRContext *context, ElementType type) {
  if (isFloat(type))
    return Float32Type::get(context);
  if (type == ElementType::BOOL)
    return IntegerType::get(context, 1);
  if (!isInteger(type))
    return {};
  // An i32 holds every integer of up to 32 bits but those of uint32.
  bool isWide = rowOf(type).bits == 64 || type == ElementType::U32;
  return IntegerType::get(context, isWide ? 64 : 32);
}

Type knownType(MLIRContext *context, ElementType type) {
  return isFloat(type) ? graph::toMlirType(context, type)
                       : computedType(context, type);
}

Type storedType(MLIRContext *context, ElementType type) {
  return isInPrograms(type) && type != ElementType::U8
             ? graph::toMlirType(context, type)
             : Type();
}

IntegerType heldType(MLIRContext *context, ElementType type) {
  if (!isInteger(type) || type == ElementType::I32 || type == ElementType::I64)
    return {};
  bool isSigned = rowOf(type).kind == ElementKind::Signed;
  return IntegerType::get(context, rowOf(type).bits,
                          isSigned ? IntegerType::Signed
                                   : IntegerType::Unsigned);
}

} // namespace polyrank::frontends
