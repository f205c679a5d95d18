// The values of a PyTorch program during import.

#include "frontends/aten/Batched.h"
#include "frontends/aten/Complex.h"
#include "frontends/aten/Nested.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace polyrank::frontends::aten {

bool forEachValue(const Value &value,
                  llvm::function_ref<bool(const Value &)> visit) {
  llvm::SmallVector<const Value *> next = {&value};
  llvm::SmallPtrSet<const void *, 8> seen;
  while (!next.empty()) {
    const Value &each = *next.pop_back_val();
    if (!visit(each))
      return false;
    if (each.isList() || each.isTuple()) {
      const List &elements = each.getElements();
      if (seen.insert(&elements).second)
        for (const Value &element : elements)
          next.push_back(&element);
    } else if (each.isDict() && seen.insert(&each.getDict()).second) {
      for (const auto &entry : each.getDict())
        next.append({&entry.first, &entry.second});
    }
  }
  return true;
}

bool Value::hasUnknown() const {
  return !forEachValue(*this,
                       [](const Value &each) { return !each.isUnknown(); });
}

double Value::getNumber() const {
  if (isBool())
    return getBool() ? 1 : 0;
  return isInt() ? static_cast<double>(getInt()) : getFloat();
}

bool Value::isSame(const Value &other) const {
  if (data.index() != other.data.index())
    return false;
  if (isList())
    return &getList() == &other.getList();
  if (isTuple())
    return &getTuple() == &other.getTuple();
  if (isDict())
    return &getDict() == &other.getDict();
  if (isTensor())
    return getTensor() == other.getTensor();
  if (isObject())
    return getObject() == other.getObject();
  if (isBool())
    return getBool() == other.getBool();
  if (isInt())
    return getInt() == other.getInt();
  if (isFloat())
    return getFloat() == other.getFloat();
  return !isString() || getString() == other.getString();
}

std::string Value::describe() const {
  if (isNone())
    return "None";
  if (isUnknown())
    return "what could not be imported";
  if (isBool())
    return getBool() ? "True" : "False";
  if (isInt())
    return "the integer " + std::to_string(getInt());
  if (isFloat())
    return "the number " + std::to_string(getFloat());
  if (isString())
    return "the text '" + getString() + "'";
  if (isTensor())
    return "a tensor of " + longNameOf(getTensor()->getType()) +
           toString(getTensor()->getShape());
  if (isList())
    return "a list of " + std::to_string(getList().size());
  if (isTuple())
    return "a tuple of " + std::to_string(getTuple().size());
  if (auto complex = asComplex(*this))
    return "a complex tensor of " + toString(complex->real->getShape());
  if (auto batched = asBatched(*this))
    return "a tensor of " + longNameOf(batched->tensor->getType()) +
           toString(batched->getShape()) + " in torch.vmap";
  return isDict() ? "a dict" : "an object";
}

Value tensorOf(Emitter &emit, const Value &number, bool isWrappedNumber) {
  MLIRContext *context = emit.getBuilder().getContext();
  ElementType type = number.isBool()  ? ElementType::BOOL
                     : number.isInt() ? ElementType::I64
                                      : ElementType::F32;
  graph::Tensor tensor(number.isFloat() ? Float64Type::get(context)
                                        : computedType(context, type),
                       {});
  if (number.isFloat())
    tensor.floats[0] = number.getFloat();
  else
    tensor.integers[0] = number.isBool() ? number.getBool() : number.getInt();
  return std::make_shared<Tensor>(Imported(std::move(tensor)), type,
                                  isWrappedNumber);
}

} // namespace polyrank::frontends::aten
