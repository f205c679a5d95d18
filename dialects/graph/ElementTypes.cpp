// Element types in MLIR's words.

#include "dialects/graph/ElementTypes.h"

using namespace mlir;

namespace polyrank::graph {

Type toMlirType(MLIRContext *context, ElementType type) {
  if (!isInPrograms(type))
    return {};
  switch (type) {
  case ElementType::F32:
    return Float32Type::get(context);
  case ElementType::F64:
    return Float64Type::get(context);
  case ElementType::BF16:
    return BFloat16Type::get(context);
  case ElementType::F16:
    return Float16Type::get(context);
  case ElementType::BOOL:
    return IntegerType::get(context, 1);
  default:
    return IntegerType::get(context, rowOf(type).bits,
                            rowOf(type).kind == ElementKind::Unsigned
                                ? IntegerType::Unsigned
                                : IntegerType::Signless);
  }
}

std::optional<ElementType> toElementType(Type type) {
  if (type.isUnsignedInteger() && !type.isUnsignedInteger(8))
    return std::nullopt;
  for (int number = 0; number < numProgramTypes; ++number) {
    Type each = toMlirType(type.getContext(), ElementType(number));
    if (each == type || (each.isSignlessInteger() &&
                         type.isSignedInteger(each.getIntOrFloatBitWidth())))
      return ElementType(number);
  }
  return std::nullopt;
}

FloatType statisticType(MLIRContext *context) {
  return Float32Type::get(context);
}

Type accumulatorOf(Type type) {
  std::optional<ElementType> element = toElementType(type);
  return element ? toMlirType(type.getContext(), rowOf(*element).accumulator)
                 : type;
}

bool isNarrow(Type type) { return accumulatorOf(type) != type; }

} // namespace polyrank::graph
