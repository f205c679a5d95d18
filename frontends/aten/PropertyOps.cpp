// Properties of tensors as Python numbers, and conversions between them.

#include <cmath>

#include "frontends/aten/Call.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

LogicalResult size(Call &c) {
  const TensorRef &self = c.tensor("self");
  if (!c.has("dim"))
    return c.give(Value::ints(self->getShape()));
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  if (self->getRank() == 0)
    return c.fail("a size of a tensor without dims");
  return c.give(Value(self->getShape()[*dim]));
}

LogicalResult stride(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim) || self->getRank() == 0)
    return c.fail("a stride of a tensor without dims");
  return c.give(Value(self->getStrides()[*dim]));
}

LogicalResult numel(Call &c) {
  return c.give(Value(countElements(c.all()[0].getTensor()->getShape())));
}

LogicalResult rank(Call &c) {
  return c.give(Value(c.all()[0].getTensor()->getRank()));
}

LogicalResult isFloating(Call &c) {
  return c.give(Value(isFloat(c.all()[0].getTensor()->getType())));
}

LogicalResult isComplex(Call &c) { return c.give(Value(false)); }

LogicalResult isContiguous(Call &c) {
  return c.give(Value(c.all()[0].getTensor()->isContiguous()));
}

/// The only element of a tensor.
FailureOr<Value> itemOf(Call &c) {
  const Value &given = c.all()[0];
  if (!given.isTensor())
    return given;
  const TensorRef &tensor = given.getTensor();
  Imported x = tensor->read(c.emit);
  if (countElements(x.getShape()) != 1)
    return c.fail(given.describe() + " as one number");
  if (!x.isConstant())
    return c.fail(explainDependentNumber());
  if (isFloat(tensor->getType()))
    return Value(x.constant->floats[0]);
  int64_t value = x.constant->integers[0];
  return tensor->getType() == ElementType::BOOL ? Value(value != 0)
                                                : Value(value);
}

LogicalResult item(Call &c) {
  auto value = itemOf(c);
  return failed(value) ? failure() : c.give(*value);
}

/// Truncates towards zero.
LogicalResult toInt(Call &c) {
  auto value = itemOf(c);
  if (failed(value))
    return failure();
  if (value->isString()) {
    int64_t number;
    if (StringRef(value->getString()).getAsInteger(10, number))
      return c.fail(value->describe() + " as an integer");
    return c.give(Value(number));
  }
  if (value->isFloat()) {
    if (!(std::fabs(value->getFloat()) < 9e18))
      return c.fail(value->describe() + " as an integer");
    return c.give(Value(static_cast<int64_t>(value->getFloat())));
  }
  return c.give(Value(value->isInt() ? value->getInt()
                                     : static_cast<int64_t>(value->getBool())));
}

LogicalResult toFloat(Call &c) {
  auto value = itemOf(c);
  if (failed(value))
    return failure();
  if (value->isString()) {
    double number;
    if (StringRef(value->getString()).getAsDouble(number))
      return c.fail(value->describe() + " as a number");
    return c.give(Value(number));
  }
  return c.give(Value(value->getNumber()));
}

LogicalResult toBool(Call &c) {
  auto value = itemOf(c);
  return failed(value) ? failure() : c.give(Value(value->getNumber() != 0));
}

/// A number as a tensor without dims, of its own type.
LogicalResult numToTensor(Call &c) {
  return c.give(tensorOf(c.emit, c.all()[0], /*isWrappedNumber=*/false));
}

const OperatorRow rows[] = {
    {"size.int(Tensor self, int dim) -> int", size},
    {"size(Tensor self) -> int[]", size},
    {"sym_size.int(Tensor self, int dim) -> SymInt", size},
    {"sym_size(Tensor self) -> SymInt[]", size},
    {"stride.int(Tensor self, int dim) -> int", stride},
    {"sym_stride.int(Tensor self, int dim) -> SymInt", stride},
    {"numel(Tensor self) -> int", numel},
    {"sym_numel(Tensor self) -> SymInt", numel},
    {"dim(Tensor self) -> int", rank},
    {"is_floating_point(Tensor self) -> bool", isFloating},
    {"is_complex(Tensor self) -> bool", isComplex},
    {"is_contiguous(Tensor self) -> bool", isContiguous},
    {"item(Tensor self) -> Scalar", item},
    {"ScalarImplicit(Tensor a) -> Scalar", item},
    {"IntImplicit(Tensor a) -> int", item},
    {"FloatImplicit(Tensor a) -> float", item},
    {"_local_scalar_dense(Tensor self) -> Scalar", item},
    {"Int.Tensor(Tensor a) -> int", toInt},
    {"Int.bool(bool a) -> int", toInt},
    {"Int.float(float a) -> int", toInt},
    {"Int.Scalar(Scalar a) -> int", toInt},
    {"Int.str(str a) -> int", toInt},
    {"Float.Tensor(Tensor a) -> float", toFloat},
    {"Float.Scalar(Scalar a) -> float", toFloat},
    {"Float.int(int a) -> float", toFloat},
    {"Float.bool(bool a) -> float", toFloat},
    {"Float.str(str a) -> float", toFloat},
    {"Bool.Tensor(Tensor a) -> bool", toBool},
    {"Bool.int(int a) -> bool", toBool},
    {"Bool.float(float a) -> bool", toBool},
    {"is_nonzero(Tensor self) -> bool", toBool},
    {"prim::NumToTensor.Scalar(Scalar a) -> Tensor", numToTensor},
    {"prim::NumToTensor.bool(bool a) -> Tensor", numToTensor},
};

} // namespace

StringRef explainDependentNumber() {
  return "a number that depends on the values of inputs or parameters, where "
         "the model needs to know it when it is compiled (for a shape, a loop "
         "or an if)";
}

ArrayRef<OperatorRow> getPropertyRows() { return rows; }

} // namespace polyrank::frontends::aten
