// Ops that say the same elements elsewhere, as index arithmetic: reshape,
// unfold, pad, concat, gather.

#include "compiler/codegen/NodeBuilder.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

int NodeBuilder::reshape(graph::ReshapeOp op, const Indices &indices,
                         int predicate) {
  ArrayRef<int64_t> from = shapeOf(op.getResult()), to = shapeOf(op.getInput());
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
    if (index.node >= 0)
      return fail(op, "its index is computed");
    affine.push_back(index.affine);
  }
  auto map = delinearize(linearize(affine, from, domain.sizes.size()), to,
                         domain.sizes, split);
  if (!map)
    return fail(op, "cuts or merges dims in a way that is not linear");
  return build(op.getInput(), Indices(map->begin(), map->end()), predicate);
}

int NodeBuilder::unfold(graph::UnfoldOp op, const Indices &indices,
                        int predicate) {
  Indices operand(indices.begin(), indices.end() - 1);
  Index &window = operand[op.getDim()];
  const Index &element = indices.back();
  int64_t stride = op.getStride(), dilation = op.getDilation();
  if (window.node < 0 && element.node < 0) {
    window = Index(window.affine * stride);
    window.affine += element.affine * dilation;
  } else {
    auto scaled = [&](const Index &index, int64_t factor) {
      return apply(Function::Mul, i64, {indexNode(index), integer(factor)});
    };
    window = Index(apply(Function::Add, i64,
                         {scaled(window, stride), scaled(element, dilation)}));
  }
  return build(op.getInput(), operand, predicate);
}

int NodeBuilder::pad(graph::PadOp op, const Indices &indices, int predicate) {
  Indices operand;
  int inside = -1;
  for (size_t d = 0, rank = indices.size(); d < rank; ++d) {
    int64_t size = shapeOf(op.getInput())[d];
    int64_t step = op.getInterior()[d] + 1, low = op.getLow()[d];
    int64_t extent = (size - 1) * step + 1;
    Index index =
        indices[d].node < 0
            ? Index(indices[d].affine + -low)
            : Index(apply(Function::Sub, i64, {indices[d].node, integer(low)}));
    std::optional<bool> known = isInside(index, 0, extent);
    if (known == false)
      inside = apply(Function::Not, i1, inRange(constantIndex(0), 0, 1));
    else if (!known)
      inside = both(inside, inRange(index, 0, extent));
    if (step != 1) {
      int position = indexNode(index);
      int rest = apply(Function::Rem, i64, {position, integer(step)});
      inside = both(inside, inRange(Index(rest), 0, 1));
      // Outside of the operand the index is any that exists.
      int quotient = apply(Function::Div, i64, {position, integer(step)});
      index = Index(
          apply(Function::Select, i64,
                {inRange(Index(quotient), 0, size), quotient, integer(0)}));
    }
    operand.push_back(index);
  }
  int value = build(op.getInput(), operand, both(predicate, inside));
  if (value < 0 || inside < 0)
    return value;
  Node padding(Node::Constant, elementTypeOf(op.getInput()));
  padding.value = op.getValue().convertToDouble();
  padding.parameter =
      isa<FloatType>(padding.type) ? 0 : static_cast<int64_t>(padding.value);
  return apply(Function::Select, padding.type, {inside, value, add(padding)});
}

int NodeBuilder::concat(graph::ConcatOp op, const Indices &indices,
                        int predicate) {
  int64_t start = 0;
  int result = -1;
  for (Value input : op.getInputs()) {
    int64_t size = shapeOf(input)[op.getDim()];
    Indices operand = indices;
    Index &index = operand[op.getDim()];
    std::optional<bool> known = isInside(index, start, start + size);
    int inside = -1;
    if (!known)
      inside = inRange(index, start, start + size);
    index =
        index.node < 0
            ? Index(index.affine + -start)
            : Index(apply(Function::Sub, i64, {index.node, integer(start)}));
    start += size;
    if (known == false)
      continue;
    int value = build(input, operand, both(predicate, inside));
    if (value < 0)
      return -1;
    result = result < 0 || inside < 0
                 ? value
                 : apply(Function::Select, loops.nodes[value].type,
                         {inside, value, result});
  }
  return result;
}

int NodeBuilder::gather(graph::GatherOp op, const Indices &indices,
                        int predicate) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t numIndexDims = shapeOf(op.getIndices()).size() - batch;
  Indices at(indices.begin(), indices.begin() + batch);
  at.append(indices.begin() + axis, indices.begin() + axis + numIndexDims);
  int index = build(op.getIndices(), at, predicate);
  if (index < 0)
    return -1;
  if (loops.nodes[index].type != i64)
    index = apply(Function::Convert, i64, index);
  int inside = inRange(Index(index), 0, shapeOf(op.getOperand())[axis]);
  int safe = apply(Function::Select, i64, {inside, index, integer(0)});
  Indices from(indices.begin(), indices.begin() + axis);
  from.push_back(Index(safe));
  from.append(indices.begin() + axis + numIndexDims, indices.end());
  int value = build(op.getOperand(), from, predicate);
  if (value < 0)
    return -1;
  Node zero(Node::Constant, elementTypeOf(op.getOperand()));
  return apply(Function::Select, zero.type, {inside, value, add(zero)});
}
