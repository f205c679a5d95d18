// Ops that say the same elements elsewhere, as index arithmetic: reshape,
// unfold and fold, pad, concat, gather.

#include "compiler/codegen/NodeBuilder.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

int NodeBuilder::reshape(graph::ReshapeOp op, const Indices &indices,
                         int predicate) {
  ArrayRef<int64_t> from = shapeOf(op.getResult()), to = shapeOf(op.getInput());
  // All elements of a splat are the first.
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

int NodeBuilder::orElse(int inside, int value, double elsewhere) {
  if (value < 0 || inside < 0)
    return value;
  Node constant(Node::Constant, loops.nodes[value].type);
  constant.value = elsewhere;
  constant.parameter =
      isa<FloatType>(constant.type) ? 0 : static_cast<int64_t>(elsewhere);
  return apply(Function::Select, constant.type, {inside, value, add(constant)});
}

/// index * factor + offset as a node.
int NodeBuilder::scaled(const Index &index, int64_t factor, int64_t offset) {
  int node = indexNode(index);
  if (factor != 1)
    node = apply(Function::Mul, i64, {node, integer(factor)});
  return offset ? apply(Function::Add, i64, {node, integer(offset)}) : node;
}

/// index / divisor in [0, size); `inside` comes to hold where there is one.
/// Elsewhere the result is any index that exists.
Index NodeBuilder::quotient(const Index &index, int64_t divisor, int64_t size,
                            int &inside) {
  std::optional<bool> known = isInside(index, 0, (size - 1) * divisor + 1);
  if (known == false)
    inside = apply(Function::Not, i1, inRange(constantIndex(0), 0, 1));
  else if (!known)
    inside = both(inside, inRange(index, 0, (size - 1) * divisor + 1));
  if (divisor == 1)
    return index;
  int position = indexNode(index);
  int rest = apply(Function::Rem, i64, {position, integer(divisor)});
  inside = both(inside, inRange(Index(rest), 0, 1));
  int quotient = apply(Function::Div, i64, {position, integer(divisor)});
  return Index(
      apply(Function::Select, i64,
            {inRange(Index(quotient), 0, size), quotient, integer(0)}));
}

int NodeBuilder::unfold(graph::UnfoldOp op, const Indices &indices,
                        int predicate) {
  Indices operand(indices.begin(), indices.end() - 1);
  Index &window = operand[op.getDim()];
  const Index &element = indices.back();
  int64_t stride = op.getStride(), dilation = op.getDilation(),
          low = op.getLow();
  if (window.node < 0 && element.node < 0) {
    window = Index(window.affine * stride + -low);
    window.affine += element.affine * dilation;
  } else {
    window = Index(
        apply(Function::Add, i64,
              {scaled(window, stride, -low), scaled(element, dilation, 0)}));
  }
  int inside = -1;
  if (low || op.getHigh())
    window = quotient(window, 1, shapeOf(op.getInput())[op.getDim()], inside);
  return orElse(inside, build(op.getInput(), operand, both(predicate, inside)),
                op.getValue().convertToDouble());
}

/// One term per element of a window: that of the window, if there is one, in
/// which the element lies here.
int NodeBuilder::fold(graph::FoldOp op, const Indices &indices, int predicate) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t dim = op.getDim(), low = op.getLow();
  int sum = -1;
  for (int64_t k = 0; k < shape.back(); ++k) {
    Indices operand = indices;
    int64_t offset = low - k * static_cast<int64_t>(op.getDilation());
    const Index &index = indices[dim];
    int inside = -1;
    operand[dim] = quotient(index.node < 0 ? Index(index.affine + offset)
                                           : Index(scaled(index, 1, offset)),
                            op.getStride(), shape[dim], inside);
    operand.push_back(constantIndex(k));
    int term = orElse(
        inside, build(op.getInput(), operand, both(predicate, inside)), 0);
    if (term < 0)
      return -1;
    sum = sum < 0 ? term
                  : apply(Function::Add, loops.nodes[term].type, {sum, term});
  }
  return sum;
}

int NodeBuilder::pad(graph::PadOp op, const Indices &indices, int predicate) {
  Indices operand;
  int inside = -1;
  for (size_t d = 0, rank = indices.size(); d < rank; ++d) {
    int64_t low = op.getLow()[d];
    operand.push_back(
        quotient(indices[d].node < 0 ? Index(indices[d].affine + -low)
                                     : Index(scaled(indices[d], 1, -low)),
                 op.getInterior()[d] + 1, shapeOf(op.getInput())[d], inside));
  }
  return orElse(inside, build(op.getInput(), operand, both(predicate, inside)),
                op.getValue().convertToDouble());
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
