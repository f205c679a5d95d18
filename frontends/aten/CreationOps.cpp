// Tensors created from numbers.

#include <cmath>

#include "frontends/aten/Call.h"
#include "frontends/aten/Nested.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

LogicalResult fill(Call &c, ArrayRef<int64_t> shape, const Value &value,
                   ElementType type) {
  if (failed(c.emit.fits(shape)))
    return failure();
  return c.give(c.emit.broadcast(c.as(value, type), shape, /*asValue=*/false),
                type);
}

/// A tensor of shape `size`; float32 if no dtype is given.
template <int value>
LogicalResult filled(Call &c) {
  auto type = c.dtype(ElementType::F32);
  if (failed(type))
    return failure();
  return fill(c, c.integers("size"), Value(value), *type);
}

ElementType typeOfNumber(const Value &value) {
  return value.isBool()  ? ElementType::BOOL
         : value.isInt() ? ElementType::I64
                         : ElementType::F32;
}

LogicalResult full(Call &c) {
  auto type = c.dtype(typeOfNumber(c["fill_value"]));
  if (failed(type))
    return failure();
  return fill(c, c.integers("size"), c["fill_value"], *type);
}

/// A tensor with the shape of self.
template <int value>
LogicalResult filledLike(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  if (failed(type))
    return failure();
  return fill(c, c.tensor("self")->getShape(), Value(value), *type);
}

LogicalResult fullLike(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  if (failed(type))
    return failure();
  return fill(c, c.tensor("self")->getShape(), c["fill_value"], *type);
}

/// A tensor with the type of self.
template <int value>
LogicalResult filledNew(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  if (failed(type))
    return failure();
  return fill(c, c.integers("size"), Value(value), *type);
}

LogicalResult fullNew(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  if (failed(type))
    return failure();
  return fill(c, c.integers("size"), c["fill_value"], *type);
}

LogicalResult scalarTensor(Call &c) {
  auto type = c.dtype(ElementType::F32);
  if (failed(type))
    return failure();
  return c.give(c.as(c["s"], *type), *type);
}

/// torch.tensor of a number, as in TorchScript.
LogicalResult tensor(Call &c) {
  auto type = c.dtype(typeOfNumber(c["t"]));
  if (failed(type))
    return failure();
  return c.give(c.as(c["t"], *type), *type);
}

/// torch.tensor of nested lists of numbers.
LogicalResult tensorOfLists(Call &c) {
  Shape shape;
  std::vector<Value> numbers;
  bool isRegular = true;
  size_t seen = 0; // a list may occur many times, and contain itself
  auto collect = [&](auto &self, const Value &value, size_t depth) -> void {
    isRegular &= depth <= maxRank && ++seen <= maxListSize;
    if (!isRegular)
      return;
    if (!value.isList()) {
      isRegular &= value.isNumber() && depth == shape.size();
      numbers.push_back(value);
      return;
    }
    auto size = static_cast<int64_t>(value.getList().size());
    if (numbers.empty() && depth == shape.size())
      shape.push_back(size);
    isRegular &= depth < shape.size() && shape[depth] == size;
    for (const Value &each : value.getList())
      if (isRegular)
        self(self, each, depth + 1);
  };
  collect(collect, c["data"], 0);
  if (!isRegular)
    return c.fail("its data are no numbers in lists of one length, up to " +
                  Twine(maxListSize) + " of them and " + Twine(maxRank) +
                  " deep");
  auto type =
      c.dtype(numbers.empty() ? ElementType::F32 : promoteTypes(numbers));
  if (failed(type))
    return failure();
  graph::Tensor result(knownType(c.emit.getBuilder().getContext(), *type),
                       shape);
  for (auto [i, number] : llvm::enumerate(numbers))
    if (result.isFloat())
      result.floats[i] = number.getNumber();
    else
      result.integers[i] = number.isInt()
                               ? number.getInt()
                               : static_cast<int64_t>(number.getNumber());
  result.round();
  return c.give(Imported(std::move(result)), *type);
}

/// start, start + step, .. before end.
LogicalResult arange(Call &c) {
  Value start = c.has("start") ? c["start"] : Value(0),
        step = c.has("step") ? c["step"] : Value(1);
  const Value &end = c["end"];
  auto type = c.dtype(promoteTypes({start, end, step}) == ElementType::F32
                          ? ElementType::F32
                          : ElementType::I64);
  if (failed(type))
    return failure();
  if (step.getNumber() == 0)
    return c.fail("its step is 0");
  double length =
      std::ceil((end.getNumber() - start.getNumber()) / step.getNumber());
  if (!(length >= 0 && length <= static_cast<double>(maxFolded)))
    return c.fail("it has " + std::to_string(length) + " elements");
  graph::Tensor result(knownType(c.emit.getBuilder().getContext(), *type),
                       {static_cast<int64_t>(length)});
  for (int64_t i = 0; i < result.size(); ++i)
    result.set(i,
               start.getNumber() + static_cast<double>(i) * step.getNumber());
  result.round();
  return c.give(Imported(std::move(result)), *type);
}

/// `steps` numbers from start to end, both included.
LogicalResult linspace(Call &c) {
  auto type = c.dtype(ElementType::F32);
  if (failed(type))
    return failure();
  int64_t steps = c.integer("steps");
  if (steps < 0 || steps > maxFolded)
    return c.fail(Twine(steps) + " steps");
  double start = c.number("start"), end = c.number("end");
  graph::Tensor result(knownType(c.emit.getBuilder().getContext(), *type),
                       {steps});
  // Computed from both ends, like PyTorch.
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  for (int64_t i = 0; i < steps; ++i)
    result.set(i, i < steps / 2
                      ? start + step * static_cast<double>(i)
                      : end - step * static_cast<double>(steps - 1 - i));
  if (steps == 1)
    result.set(0, start);
  result.round();
  return c.give(Imported(std::move(result)), *type);
}

LogicalResult eye(Call &c) {
  auto type = c.dtype(ElementType::F32);
  if (failed(type))
    return failure();
  int64_t rows = c.integer("n"), columns = c.integer("m", rows);
  if (failed(c.emit.fits({rows, columns})))
    return failure();
  Type index = c.emit.getBuilder().getI64Type();
  Imported isDiagonal = c.emit.binary<graph::CompareOp>(
      c.emit.iota({rows, columns}, 0, index),
      c.emit.iota({rows, columns}, 1, index), graph::Comparison::EQ);
  return c.give(isDiagonal, *type);
}

/// The indices of the lower or upper triangle of a matrix, in row-major order:
/// [2, count].
template <bool isLower>
LogicalResult triangleIndices(Call &c) {
  int64_t rows = c.integer("row"), columns = c.integer("col"),
          offset = c.integer("offset");
  auto type = c.dtype(ElementType::I64);
  if (failed(type))
    return failure();
  if (rows < 0 || columns < 0 || countElements({rows, columns}) > maxFolded)
    return c.fail("a matrix of " + toString({rows, columns}));
  std::vector<int64_t> places[2];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (isLower ? column - row <= offset : column - row >= offset) {
        places[0].push_back(row);
        places[1].push_back(column);
      }
  int64_t count = places[0].size();
  graph::Tensor result(knownType(c.emit.getBuilder().getContext(), *type),
                       {2, count});
  for (int64_t i = 0; i < 2 * count; ++i)
    result.set(i, static_cast<double>(places[i / count][i % count]));
  return c.give(Imported(std::move(result)), *type);
}

const OperatorRow rows[] = {
    {"tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     triangleIndices<true>},
    {"triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     triangleIndices<false>},
    {"zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     filled<0>},
    {"empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     filled<0>},
    {"empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? "
     "dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     filled<0>},
    {"ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     filled<1>},
    {"full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     full},
    {"zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     filledLike<0>},
    {"empty_like(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     filledLike<0>},
    {"ones_like(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     filledLike<1>},
    {"full_like(Tensor self, Scalar fill_value, *, ScalarType? "
     "dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     fullLike},
    {"new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     filledNew<0>},
    {"new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     filledNew<0>},
    {"new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     filledNew<1>},
    {"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, "
     "ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     fullNew},
    {"scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     scalarTensor},
    {"tensor.float(float t, *, ScalarType? dtype=None, Device? "
     "device=None, bool requires_grad=False) -> Tensor",
     tensor},
    {"tensor.int(int t, *, ScalarType? dtype=None, Device? device=None, "
     "bool requires_grad=False) -> Tensor",
     tensor},
    {"tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None, "
     "bool requires_grad=False) -> Tensor",
     tensor},
    {"tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, "
     "bool requires_grad=False) -> Tensor",
     tensorOfLists},
    {"arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     arange},
    {"arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     arange},
    {"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, "
     "ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     arange},
    {"linspace(Scalar start, Scalar end, int steps, *, ScalarType? "
     "dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     linspace},
    {"eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     eye},
    {"eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     eye},
};

} // namespace

ArrayRef<OperatorRow> getCreationRows() { return rows; }

} // namespace polyrank::frontends::aten
