// Conversions of element types, copies, and operators without effect.

#include "frontends/aten/Call.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// Returns self if it has the type already and no copy is requested.
LogicalResult convert(Call &c, ElementType type) {
  const TensorRef &self = c.tensor("self");
  bool copies = c.has("copy") && c.flag("copy");
  if (type == self->getType() && !copies)
    return c.give(Value(self));
  return c.give(c.read("self"), type);
}

/// Devices, layouts and memory formats have no effect here.
LogicalResult to(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  return failed(type) ? failure() : convert(c, *type);
}

LogicalResult toOther(Call &c) { return convert(c, c.typeOf("other")); }

/// Always gives a new tensor.
LogicalResult toCopy(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  return failed(type) ? failure() : c.give(c.read("self"), *type);
}

LogicalResult clone(Call &c) {
  return c.give(c.read("self"), c.typeOf("self"));
}

LogicalResult contiguous(Call &c) {
  const TensorRef &self = c.tensor("self");
  return self->isContiguous() ? c.give(Value(self)) : clone(c);
}

/// Gives the argument itself.
LogicalResult same(Call &c) { return c.give(c.all()[0]); }

LogicalResult detach(Call &c) {
  return c.view(c.tensor("self"), View::Kind::Detach, {});
}

/// Stops the gradient of self from here on, in place.
LogicalResult detachInPlace(Call &c) {
  const TensorRef &self = c.tensor("self");
  if (isFloat(self->getType())) {
    Imported x = self->read(c.emit);
    if (!x.constant)
      self->write(c.emit, c.emit.unary<graph::DetachOp>(x));
  }
  return c.give(Value(self));
}

LogicalResult alias(Call &c) {
  return c.view(c.tensor("self"), View::Kind::Reshape,
                c.tensor("self")->getShape());
}

/// Writes `src`, which broadcasts, into self.
LogicalResult copy(Call &c) {
  const TensorRef &self = c.tensor("self");
  ElementType type = self->getType();
  Imported x = c.as(c["src"], type);
  auto common = broadcastShapes(x.getShape(), self->getShape());
  if (failed(common) || *common != self->getShape())
    return c.fail(toString(x.getShape()) + " into " +
                  toString(self->getShape()));
  self->write(c.emit, c.emit.broadcast(x, self->getShape(), !x.isConstant()));
  return c.give(Value(self));
}

LogicalResult fill(Call &c) {
  const TensorRef &self = c.tensor("self");
  Imported x = c.has("value") ? c.as(c["value"], self->getType())
                              : c.scalar(Value(0), self->getType());
  self->write(c.emit, c.emit.broadcast(x, self->getShape(), !x.isConstant()));
  return c.give(Value(self));
}

/// For assertions that cannot fail when shapes are known.
LogicalResult nothing(Call &) { return success(); }

const OperatorRow rows[] = {
    {"to.device(Tensor(a) self, Device device, ScalarType dtype, bool "
     "non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None) -> Tensor(a)",
     to},
    {"to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, "
     "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
     to},
    {"to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, bool "
     "non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None) -> Tensor(a)",
     to},
    {"to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, "
     "bool non_blocking=False, bool copy=False) -> Tensor(b|a)",
     to},
    {"to.prim_dtype(Tensor(a) self, int? dtype=None, bool "
     "non_blocking=False, bool copy=False) -> Tensor(b|a)",
     to},
    {"to.other(Tensor(a) self, Tensor other, bool non_blocking=False, "
     "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
     toOther},
    {"type_as(Tensor self, Tensor other) -> Tensor", toOther},
    {"to.prim_other(Tensor(a) self, bool non_blocking=False, bool "
     "copy=False) -> Tensor(b|a)",
     same},
    {"cpu(Tensor(a) self) -> Tensor(b|a)", same},
    {"cuda(Tensor(a) self) -> Tensor(b|a)", same},
    {"pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)", same},
    {"requires_grad_(Tensor(a!) self, bool requires_grad=True) -> "
     "Tensor(a!)",
     same},
    {"resolve_conj(Tensor(a) self) -> Tensor(a)", same},
    {"resolve_neg(Tensor(a) self) -> Tensor(a)", same},
    {"lift_fresh(Tensor(a) self) -> Tensor(a)", same},
    {"_conj(Tensor(a) self) -> Tensor(a)", same},
    {"positive(Tensor(a) self) -> Tensor(a)", same},
    {"_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, bool "
     "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     toCopy},
    {"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     clone},
    {"lift_fresh_copy(Tensor self) -> Tensor", clone},
    {"detach_copy(Tensor self) -> Tensor", clone},
    {"alias_copy(Tensor self) -> Tensor", clone},
    {"contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> "
     "Tensor(a)",
     contiguous},
    {"detach(Tensor(a) self) -> Tensor(a)", detach},
    {"detach_(Tensor(a!) self) -> Tensor(a!)", detachInPlace},
    {"alias(Tensor(a) self) -> Tensor(a)", alias},
    {"copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> "
     "Tensor(a!)",
     copy},
    {"fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", fill},
    {"fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", fill},
    {"zero_(Tensor(a!) self) -> Tensor(a!)", fill},
    {"_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? "
     "stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()",
     nothing},
    {"_assert_scalar(Scalar self, str assert_msg) -> ()", nothing},
    {"_assert_async.msg(Tensor self, str assert_msg) -> ()", nothing},
    {"_assert_async(Tensor self) -> ()", nothing},
    {"sym_constrain_range(Scalar size, *, int? min=None, int? max=None) "
     "-> ()",
     nothing},
    {"sym_constrain_range_for_size(Scalar size, *, int? min=None, int? "
     "max=None) -> ()",
     nothing},
};

} // namespace

ArrayRef<OperatorRow> getConversionRows() { return rows; }

} // namespace polyrank::frontends::aten
