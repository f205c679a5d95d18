// Queries on parsed code.

#include "frontends/torchscript/Syntax.h"

#include <algorithm>

namespace polyrank::frontends::torchscript {

std::string Expression::dotted() const {
  if (is(Expression::Kind::Name))
    return text;
  if (!is(Expression::Kind::Attribute))
    return "";
  std::string prefix = operands[0]->dotted();
  return prefix.empty() ? "" : prefix + "." + text;
}

const Function *Class::findMethod(std::string_view name) const {
  for (const Function &method : methods)
    if (method.name == name)
      return &method;
  return nullptr;
}

const Class::Field *Class::findField(std::string_view name) const {
  for (const Field &field : fields)
    if (field.name == name)
      return &field;
  return nullptr;
}

int64_t SourceFile::lineOf(uint32_t offset) const {
  return 1 + (std::lower_bound(lineEnds.begin(), lineEnds.end(), offset) -
              lineEnds.begin());
}

} // namespace polyrank::frontends::torchscript
