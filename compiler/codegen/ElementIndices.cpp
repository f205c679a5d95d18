// Builds ops that only move elements as index arithmetic: reshape, unfold and
// fold, pad, concat, gather.

#include "compiler/codegen/ElementBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

Value ElementBuilder::reshape(graph::ReshapeOp op, const Indices &indices,
                              Value predicate) {
  ArrayRef<int64_t> from = shapeOf(op.getResult()), to = shapeOf(op.getInput());
  // All elements of a splat equal the first.
  auto constant = op.getInput().getDefiningOp<graph::ConstantOp>();
  if (constant && constant.getValue().isSplat())
    return build(op.getInput(), Indices(to.size(), constantIndex(0)),
                 predicate);
  auto isLarge = [](int64_t size) { return size != 1; };
  if (llvm::equal(llvm::make_filter_range(from, isLarge),
                  llvm::make_filter_range(to, isLarge))) {
    Indices operand;
    size_t next = 0;
    for (int64_t size : to) {
      if (size == 1) {
        operand.push_back(constantIndex(0));
        continue;
      }
      while (from[next] == 1)
        ++next;
      operand.push_back(indices[next++]);
    }
    return build(op.getInput(), operand, predicate);
  }
  IndexMap affine;
  for (const Index &index : indices) {
    if (index.value)
      return fail(op, "its index is computed");
    affine.push_back(index.affine);
  }
  auto map = delinearize(linearize(affine, from, domain.sizes.size()), to,
                         domain.sizes, split);
  if (!map)
    return fail(op, "cuts or merges dims in a way that is not linear");
  return build(op.getInput(), Indices(map->begin(), map->end()), predicate);
}

Value ElementBuilder::slice(graph::SliceOp op, const Indices &indices,
                            Value predicate) {
  Indices operand;
  for (auto [index, start, stride] :
       llvm::zip_equal(indices, op.getStarts(), op.getStrides()))
    operand.push_back(
        index.value ? Index(sum(product(index.value, stride), integer(start)))
                    : Index(index.affine * stride + start));
  return build(op.getInput(), operand, predicate);
}

Value ElementBuilder::orElse(Value inside, Value value, double elsewhere) {
  if (!value || !inside)
    return value;
  return choose(inside, value, scalars.constant(value.getType(), elsewhere));
}

/// index * factor + offset as a scalar.
Value ElementBuilder::scaled(const Index &index, int64_t factor,
                             int64_t offset) {
  Value value = product(valueOf(index), factor);
  return offset ? sum(value, integer(offset)) : value;
}

Index ElementBuilder::shifted(const Index &index, int64_t offset) {
  return index.value ? Index(scaled(index, 1, offset))
                     : Index(index.affine + offset);
}

/// index / divisor if that is a whole number in [0, size). This condition is
/// added to the conjunction `inside`; where it does not hold, the result is
/// some index in [0, size).
Index ElementBuilder::quotient(const Index &index, int64_t divisor,
                               int64_t size, Value &inside) {
  std::optional<bool> known = isInside(index, 0, (size - 1) * divisor + 1);
  if (known == false)
    inside = scalars.integer(i1, 0);
  else if (!known)
    inside = both(inside, inRange(index, 0, (size - 1) * divisor + 1));
  if (divisor == 1)
    return index;
  Value position = valueOf(index);
  Value rest = scalars.create<arith::RemSIOp>(position, integer(divisor));
  inside = both(inside, inRange(Index(rest), 0, 1));
  Value quotient = scalars.create<arith::DivSIOp>(position, integer(divisor));
  return Index(choose(inRange(Index(quotient), 0, size), quotient, integer(0)));
}

Value ElementBuilder::unfold(graph::UnfoldOp op, const Indices &indices,
                             Value predicate) {
  Indices operand(indices.begin(), indices.end() - 1);
  Index &window = operand[op.getDim()];
  const Index &element = indices.back();
  int64_t stride = op.getStride(), dilation = op.getDilation(),
          low = op.getLow();
  if (!window.value && !element.value) {
    window = Index(window.affine * stride + -low);
    window.affine += element.affine * dilation;
  } else {
    window =
        Index(sum(scaled(window, stride, -low), scaled(element, dilation, 0)));
  }
  Value inside;
  if (low || op.getHigh())
    window = quotient(window, 1, shapeOf(op.getInput())[op.getDim()], inside);
  return orElse(inside, build(op.getInput(), operand, both(predicate, inside)),
                op.getValue().convertToDouble());
}

/// One term for each position in a window: the element of the window, if there
/// is one, that has the result's element at this position. Their sum is rounded
/// once.
Value ElementBuilder::fold(graph::FoldOp op, const Indices &indices,
                           Value predicate) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t dim = op.getDim(), low = op.getLow();
  Value total;
  for (int64_t k = 0; k < shape.back(); ++k) {
    Indices operand = indices;
    int64_t offset = low - k * static_cast<int64_t>(op.getDilation());
    Value inside;
    operand[dim] = quotient(shifted(indices[dim], offset), op.getStride(),
                            shape[dim], inside);
    operand.push_back(constantIndex(k));
    Value term = inAccumulator(orElse(
        inside, build(op.getInput(), operand, both(predicate, inside)), 0));
    if (!term)
      return Value();
    graph::Scalar x(scalars, term);
    total = total ? (graph::Scalar(scalars, total) + x).get() : term;
  }
  return convert(total, elementTypeOf(op.getResult()));
}

Value ElementBuilder::pad(graph::PadOp op, const Indices &indices,
                          Value predicate) {
  Indices operand;
  Value inside;
  for (size_t d = 0, rank = indices.size(); d < rank; ++d)
    operand.push_back(quotient(shifted(indices[d], -op.getLow()[d]),
                               op.getInterior()[d] + 1,
                               shapeOf(op.getInput())[d], inside));
  return orElse(inside, build(op.getInput(), operand, both(predicate, inside)),
                op.getValue().convertToDouble());
}

Value ElementBuilder::concat(graph::ConcatOp op, const Indices &indices,
                             Value predicate) {
  int64_t start = 0;
  Value result;
  for (Value input : op.getInputs()) {
    int64_t size = shapeOf(input)[op.getDim()];
    Indices operand = indices;
    Index &index = operand[op.getDim()];
    std::optional<bool> known = isInside(index, start, start + size);
    Value inside;
    if (!known)
      inside = inRange(index, start, start + size);
    index = shifted(index, -start);
    start += size;
    if (known == false)
      continue;
    Value value = build(input, operand, both(predicate, inside));
    if (!value)
      return Value();
    result = !result || !inside ? value : choose(inside, value, result);
  }
  return result;
}

Value ElementBuilder::gather(graph::GatherOp op, const Indices &indices,
                             Value predicate) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t numIndexDims = shapeOf(op.getIndices()).size() - batch;
  Indices at(indices.begin(), indices.begin() + batch);
  at.append(indices.begin() + axis, indices.begin() + axis + numIndexDims);
  Value index = build(op.getIndices(), at, predicate);
  if (!index)
    return Value();
  index = widen(index);
  Value inside = inRange(Index(index), 0, shapeOf(op.getOperand())[axis]);
  Value safe = choose(inside, index, integer(0));
  Indices from(indices.begin(), indices.begin() + axis);
  from.push_back(Index(safe));
  from.append(indices.begin() + axis + numIndexDims, indices.end());
  return orElse(inside, build(op.getOperand(), from, predicate), 0);
}
