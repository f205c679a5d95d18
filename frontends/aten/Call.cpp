// The binder through which the function of an operator sees its call.

#include "frontends/aten/Call.h"

#include "frontends/aten/Batched.h"
#include "frontends/emit/Integers.h"

using namespace mlir;

namespace polyrank::frontends::aten {

//===-- arguments --------------------------------------------------------===//

static const Value *find(const Schema &schema,
                         const std::vector<Value> &arguments, StringRef name) {
  for (auto [parameter, value] : llvm::zip_equal(schema.parameters, arguments))
    if (parameter.name == name)
      return &value;
  return nullptr;
}

const Value &Call::operator[](StringRef name) const {
  const Value *value = find(schema, arguments, name);
  assert(value && "no such parameter in the schema");
  return *value;
}

bool Call::has(StringRef name) const {
  const Value *value = find(schema, arguments, name);
  return value && !value->isNone();
}

SmallVector<int64_t> Call::integers(StringRef name) const {
  SmallVector<int64_t> result;
  for (const Value &each : (*this)[name].getElements())
    result.push_back(each.getInt());
  return result;
}

std::vector<TensorRef> Call::tensors(StringRef name) const {
  std::vector<TensorRef> result;
  for (const Value &each : (*this)[name].getElements())
    result.push_back(each.isNone() ? nullptr : each.getTensor());
  return result;
}

Imported Call::read(StringRef name) const {
  return has(name) ? tensor(name)->read(emit) : Imported();
}

FailureOr<ElementType> Call::dtype(ElementType otherwise) {
  if (!has("dtype"))
    return otherwise;
  int64_t number = integer("dtype");
  if (auto type = supportedType(number))
    return *type;
  return fail("its dtype is number " + Twine(number) +
              " of PyTorch's types, which is not supported; use float32, int64 "
              "or bool");
}

//===-- types ------------------------------------------------------------===//

static int kindOf(ElementType type) {
  return type == ElementType::BOOL ? 0 : isFloat(type) ? 2 : 1;
}

ElementType promoteTypes(ElementType a, ElementType b) {
  if (a == b)
    return a;
  if (kindOf(a) != kindOf(b))
    return kindOf(a) > kindOf(b) ? a : b;
  if (kindOf(a) == 2) {
    if (a == ElementType::F64 || b == ElementType::F64)
      return ElementType::F64;
    return ElementType::F32; // for half and bfloat16 too
  }
  // uint8 and a signed type need a type that holds both.
  auto widthOf = [](ElementType type) { return bytesOf(type); };
  if ((a == ElementType::U8 && b == ElementType::I8) ||
      (a == ElementType::I8 && b == ElementType::U8))
    return ElementType::I16;
  return widthOf(a) >= widthOf(b) ? a : b;
}

ElementType promoteTypes(ArrayRef<Value> values) {
  // The types of tensors with dims, of tensors without dims, and of numbers.
  std::optional<ElementType> types[3];
  for (const Value &value : values) {
    if (value.isNone())
      continue;
    int group = 2;
    ElementType type;
    if (value.isTensor()) {
      const Tensor &tensor = *value.getTensor();
      group = tensor.isWrappedNumber() ? 2 : tensor.getRank() == 0 ? 1 : 0;
      type = tensor.getType();
    } else if (auto batched = asBatched(value)) {
      group = batched->getRank() == 0 ? 1 : 0;
      type = batched->tensor->getType();
    } else {
      type = value.isBool()  ? ElementType::BOOL
             : value.isInt() ? ElementType::I64
                             : ElementType::F32;
    }
    types[group] = types[group] ? promoteTypes(*types[group], type) : type;
  }
  std::optional<ElementType> result;
  for (const auto &type : types) {
    if (!type)
      continue;
    if (!result)
      result = type;
    else if (kindOf(*type) > kindOf(*result))
      result = type;
  }
  return result.value_or(ElementType::F32);
}

Imported Call::scalar(const Value &value, ElementType type) const {
  return as(tensorOf(emit, value, true), type);
}

Imported Call::as(const Imported &x, ElementType type) const {
  MLIRContext *context = emit.getBuilder().getContext();
  Imported result = emit.convert(x, x.constant ? knownType(context, type)
                                               : computedType(context, type));
  return result;
}

Imported Call::as(const Value &value, ElementType type) const {
  return value.isTensor() ? as(value.getTensor()->read(emit), type)
                          : scalar(value, type);
}

FailureOr<Call::Together> Call::promote(ArrayRef<Value> values, bool toFloat) {
  Together result;
  result.type = promoteTypes(values);
  if (toFloat)
    result.type = floatOf(result.type);
  SmallVector<Imported> operands;
  for (const Value &value : values)
    operands.push_back(as(value, result.type));
  auto together = emit.broadcastAll(operands);
  if (failed(together))
    return failure();
  result.operands = std::move(*together);
  // A known operand gets the element type of values if another operand is a
  // value.
  MLIRContext *context = emit.getBuilder().getContext();
  if (llvm::any_of(result.operands,
                   [](const Imported &x) { return !x.constant; }))
    for (Imported &operand : result.operands)
      operand = emit.convert(operand, computedType(context, result.type));
  return result;
}

LogicalResult Call::needIntegers(StringRef name) {
  if (typeOf(name) == ElementType::BOOL || isFloat(typeOf(name)))
    return fail("its " + name + " is " + (*this)[name].describe() +
                ", not of integers");
  return success();
}

//===-- dims -------------------------------------------------------------===//

FailureOr<int64_t> Call::dim(int64_t dim, int64_t rank) {
  int64_t least = std::max<int64_t>(rank, 1);
  if (dim < -least || dim >= least)
    return fail("dim " + Twine(dim) + " of a tensor of " + Twine(rank) +
                " dims");
  return dim < 0 ? dim + least : dim;
}

FailureOr<SmallVector<int64_t>> Call::dims(StringRef name, int64_t rank) {
  SmallVector<int64_t> given;
  if (has(name))
    given = (*this)[name].isInt() ? SmallVector<int64_t>{integer(name)}
                                  : integers(name);
  if (given.empty())
    return llvm::to_vector(llvm::seq<int64_t>(rank));
  SmallVector<int64_t> result;
  for (int64_t each : given) {
    auto counted = dim(each, rank);
    if (failed(counted))
      return failure();
    if (llvm::is_contained(result, *counted))
      return fail("dims " + toString(given) + " name a dim twice");
    if (rank > 0)
      result.push_back(*counted);
  }
  llvm::sort(result);
  return result;
}

//===-- results ----------------------------------------------------------===//

LogicalResult Call::give(const Imported &x, ElementType type) {
  MLIRContext *context = emit.getBuilder().getContext();
  Imported result = as(x, type);
  if (IntegerType held = heldType(context, type)) {
    result = wrapAround(emit, result, held);
    result.held = held;
  }
  results.push_back(std::make_shared<Tensor>(std::move(result), type));
  return success();
}

LogicalResult Call::give(Value value) {
  results.push_back(std::move(value));
  return success();
}

LogicalResult Call::view(const TensorRef &base, View::Kind kind,
                         ArrayRef<int64_t> numbers) {
  results.push_back(Tensor::viewOf(emit, base, {kind, Shape(numbers)}));
  return success();
}

} // namespace polyrank::frontends::aten
