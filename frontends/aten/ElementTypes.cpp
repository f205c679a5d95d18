// Which of PyTorch's element types are supported.

#include "frontends/aten/ElementTypes.h"

#include <limits>

namespace polyrank::frontends::aten {

bool isSupported(ElementType type) {
  return isFloat(type) || isInPrograms(type) || type == ElementType::I16;
}

static std::optional<ElementType> ifSupported(std::optional<ElementType> type) {
  return type && isSupported(*type) ? type : std::nullopt;
}

std::optional<ElementType> supportedType(int64_t number) {
  if (number < 0 || number > std::numeric_limits<int>::max())
    return std::nullopt;
  return ifSupported(
      findElementType(&ElementTypeRow::torch, static_cast<int>(number)));
}

std::optional<ElementType> supportedType(llvm::StringRef name) {
  return ifSupported(findElementType(&ElementTypeRow::longName, name));
}

bool isComplex(ElementType type) {
  return type == ElementType::C64 || type == ElementType::C128;
}

} // namespace polyrank::frontends::aten
