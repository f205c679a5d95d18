// Elementwise ops and reductions as nodes; equal nodes are one.

#include "compiler/codegen/NodeBuilder.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::getStrides;

static void appendKey(std::vector<int64_t> &key, const Affine &affine) {
  key.push_back(affine.constant);
  key.insert(key.end(), affine.coefficients.begin(), affine.coefficients.end());
}

int NodeBuilder::add(Node node) {
  std::vector<int64_t> key = {
      node.kind,
      reinterpret_cast<int64_t>(node.type.getAsOpaquePointer()),
      static_cast<int64_t>(node.function),
      static_cast<int64_t>(node.reduction),
      node.parameter,
      llvm::bit_cast<int64_t>(node.value),
      node.lower,
      node.upper,
      node.predicate,
      static_cast<int64_t>(node.operands.size())};
  key.insert(key.end(), node.operands.begin(), node.operands.end());
  key.insert(key.end(), node.strides.begin(), node.strides.end());
  appendKey(key, node.expression);
  auto [entry, isNew] = known.try_emplace(key, loops.nodes.size());
  if (isNew)
    loops.nodes.push_back(std::move(node));
  return entry->second;
}

int NodeBuilder::apply(Function function, Type type, ArrayRef<int> operands,
                       int64_t parameter) {
  Node node(Node::Apply, type);
  node.function = function;
  node.operands.assign(operands.begin(), operands.end());
  node.parameter = parameter;
  return add(node);
}

int NodeBuilder::integer(int64_t value) {
  Node node(Node::Constant, i64);
  node.parameter = value;
  node.value = static_cast<double>(value);
  return add(node);
}

int NodeBuilder::indexNode(const Index &index) {
  if (index.node >= 0)
    return index.node;
  if (index.affine.isConstant())
    return integer(index.affine.constant);
  Node node(Node::Index, i64);
  node.expression = index.affine;
  return add(node);
}

int NodeBuilder::inRange(const Index &index, int64_t lower, int64_t upper) {
  if (index.node >= 0) {
    int above = apply(Function::Compare, i1, {index.node, integer(lower)},
                      static_cast<int64_t>(graph::Comparison::GE));
    int below = apply(Function::Compare, i1, {index.node, integer(upper)},
                      static_cast<int64_t>(graph::Comparison::LT));
    return both(above, below);
  }
  Node node(Node::InRange, i1);
  node.expression = index.affine;
  node.lower = lower;
  node.upper = upper;
  return add(node);
}

/// The conjunction of two conditions, where -1 is true.
int NodeBuilder::both(int x, int y) {
  if (x < 0 || x == y)
    return y;
  if (y < 0)
    return x;
  return apply(Function::And, loops.nodes[x].type, {x, y});
}

int NodeBuilder::load(unsigned argument, ArrayRef<int64_t> shape, Type type,
                      const Indices &indices, int predicate) {
  Node node(Node::Load, type);
  node.parameter = argument;
  node.predicate = predicate;
  node.expression = constantIndex(0);
  for (auto [index, stride] : llvm::zip_equal(indices, getStrides(shape))) {
    if (index.node < 0) {
      node.expression += index.affine * stride;
    } else {
      node.operands.push_back(index.node);
      node.strides.push_back(stride);
    }
  }
  return add(node);
}

int NodeBuilder::build(Value value, const Indices &indices, int predicate) {
  std::vector<int64_t> key = {
      reinterpret_cast<int64_t>(value.getAsOpaquePointer()), predicate};
  for (const Index &index : indices) {
    key.push_back(index.node);
    if (index.node < 0)
      appendKey(key, index.affine);
  }
  if (auto found = built.find(key); found != built.end())
    return found->second;
  int node;
  if (auto argument = arguments.find(value); argument != arguments.end())
    node = load(argument->second, shapeOf(value), elementTypeOf(value), indices,
                predicate);
  else
    node = buildOp(value.getDefiningOp(), indices, predicate);
  if (node >= 0)
    built[key] = node;
  return node;
}

int NodeBuilder::buildOp(Operation *op, const Indices &indices, int predicate) {
  return TypeSwitch<Operation *, int>(op)
      .Case([&](graph::ConstantOp constant) {
        auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
        if (!elements)
          return fail(op, "a constant that is not a splat is an argument");
        Node node(Node::Constant, elements.getElementType());
        if (isa<FloatType>(node.type)) {
          node.value = elements.getSplatValue<APFloat>().convertToDouble();
        } else {
          APInt value = elements.getSplatValue<APInt>();
          node.parameter = node.type.isInteger(1) ? value.getZExtValue()
                                                  : value.getSExtValue();
        }
        return add(node);
      })
      .Case([&](graph::SeedOp seed) {
        Node node(Node::Constant, elementTypeOf(seed.getResult()));
        node.value = seed.getValue().convertToDouble();
        return add(node);
      })
      .Case([&](graph::IotaOp iota) {
        int index = indexNode(indices[iota.getDim()]);
        Type type = elementTypeOf(iota.getResult());
        return type.isInteger(64) ? index
                                  : apply(Function::Convert, type, index);
      })
      .Case(
          [&](graph::ReshapeOp op) { return reshape(op, indices, predicate); })
      .Case([&](graph::TransposeOp op) {
        Indices operand(indices.size());
        for (auto [d, from] : llvm::enumerate(op.getPermutation()))
          operand[from] = indices[d];
        return build(op.getInput(), operand, predicate);
      })
      .Case([&](graph::BroadcastOp op) {
        Indices operand;
        for (int64_t dim : op.getDims())
          operand.push_back(indices[dim]);
        return build(op.getInput(), operand, predicate);
      })
      .Case([&](graph::SliceOp op) {
        Indices operand;
        for (auto [index, start, stride] :
             llvm::zip_equal(indices, op.getStarts(), op.getStrides()))
          operand.push_back(
              index.node < 0
                  ? Index(index.affine * stride + start)
                  : Index(apply(Function::Add, i64,
                                {apply(Function::Mul, i64,
                                       {index.node, integer(stride)}),
                                 integer(start)})));
        return build(op.getInput(), operand, predicate);
      })
      .Case([&](graph::UnfoldOp op) { return unfold(op, indices, predicate); })
      .Case([&](graph::FoldOp op) { return fold(op, indices, predicate); })
      .Case([&](graph::PadOp op) { return pad(op, indices, predicate); })
      .Case([&](graph::ConcatOp op) { return concat(op, indices, predicate); })
      .Case([&](graph::GatherOp op) { return gather(op, indices, predicate); })
      .Case([&](graph::ReduceOp op) { return reduce(op, indices); })
      .Case(
          [&](graph::DropoutOp op) { return dropout(op, indices, predicate); })
      .Case(
          [&](graph::UniformOp op) { return uniform(op, indices, predicate); })
      .Default(
          [&](Operation *op) { return elementwise(op, indices, predicate); });
}

/// Reductions exist at one index map: that at which the loops compute them.
int NodeBuilder::reduce(graph::ReduceOp op, const Indices &indices) {
  const IndexMap *input = domain.getMap(op.getInput());
  if (!input)
    return fail(op, "its operand is no function of the loop variables");
  size_t numVariables = domain.sizes.size();
  Affine reduced(numVariables), kept(numVariables);
  int64_t count = 1, keptCount = 1;
  size_t next = 0;
  for (int64_t d = static_cast<int64_t>(input->size()) - 1; d >= 0; --d) {
    int64_t size = shapeOf(op.getInput())[d];
    bool isReduced = llvm::is_contained(op.getDims(), d);
    Affine &offset = isReduced ? reduced : kept;
    int64_t &stride = isReduced ? count : keptCount;
    offset += (*input)[d] * stride;
    stride *= size;
  }
  for (auto [d, index] : llvm::enumerate(*input)) {
    if (llvm::is_contained(op.getDims(), static_cast<int64_t>(d)))
      continue;
    const Index &asked = indices[next++];
    if (asked.node >= 0 || asked.affine != index)
      return fail(op, "is used at another place than it is computed");
  }
  for (auto [v, variable] : llvm::enumerate(domain.variables)) {
    const Affine &other = variable.isReduced ? kept : reduced;
    if (other.coefficients[v] != 0)
      return fail(op, "reduces other variables than the rest of the kernel");
  }
  if (count != loops.product(/*reduced=*/true) ||
      keptCount != loops.product(/*reduced=*/false) ||
      !isDense(reduced, domain.sizes, count) ||
      !isDense(kept, domain.sizes, keptCount))
    return fail(op, "reduces other variables than the rest of the kernel");
  int operand = build(op.getInput(), Indices(input->begin(), input->end()), -1);
  if (operand < 0 || count == 1)
    return operand;
  Node node(Node::Reduce, loops.nodes[operand].type);
  node.operands.push_back(operand);
  node.reduction = op.getKind();
  return add(node);
}

template <typename Op>
int NodeBuilder::randomWord(Op op, ArrayRef<int64_t> shape,
                            const Indices &indices, int predicate) {
  int seed = build(op.getSeed(), {}, predicate);
  int step = build(op.getStep(), {}, predicate);
  int microbatch = build(op.getMicrobatch(), {}, predicate);
  if (seed < 0 || step < 0 || microbatch < 0)
    return -1;
  Type i32 = IntegerType::get(op.getContext(), 32);
  auto widen = [&](int node) {
    return loops.nodes[node].type == i64 ? node
                                         : apply(Function::Convert, i64, node);
  };
  ArrayRef<int64_t> globalShape =
      op.getGlobalShape() ? *op.getGlobalShape() : shape;
  SmallVector<int64_t> strides = getStrides(globalShape);
  Affine linear = constantIndex(0);
  int position = -1;
  auto addTerm = [&](int node, int64_t stride) {
    if (stride != 1)
      node = apply(Function::Mul, i64, {node, integer(stride)});
    position =
        position < 0 ? node : apply(Function::Add, i64, {position, node});
  };
  for (auto [index, stride] : llvm::zip_equal(indices, strides)) {
    if (index.node < 0)
      linear += index.affine * stride;
    else
      addTerm(index.node, stride);
  }
  for (auto [offset, stride] : llvm::zip(op.getOffsets(), strides)) {
    int node = build(offset, {}, predicate);
    if (node < 0)
      return -1;
    addTerm(widen(node), stride);
  }
  int element = indexNode(Index(linear));
  if (position >= 0)
    element = apply(Function::Add, i64, {position, element});

  int word = apply(Function::Philox, i32,
                   {element, widen(seed), widen(step), widen(microbatch)},
                   op.getRngId());
  return apply(Function::And, i64,
               {apply(Function::Convert, i64, word), integer(0xFFFFFFFF)});
}

int NodeBuilder::dropout(graph::DropoutOp op, const Indices &indices,
                         int predicate) {
  int input = build(op.getInput(), indices, predicate);
  int word = randomWord(op, shapeOf(op.getInput()), indices, predicate);
  if (input < 0 || word < 0)
    return -1;
  double rate = op.getRate().convertToDouble();
  // word >= rate * 2^32.
  int keep =
      apply(Function::Compare, i1,
            {word, integer(static_cast<int64_t>(std::ceil(rate * 0x1p32)))},
            static_cast<int64_t>(graph::Comparison::GE));
  Node scale(Node::Constant, loops.nodes[input].type);
  scale.value = 1 - rate;
  Node zero(Node::Constant, loops.nodes[input].type);
  int scaled = apply(Function::Div, zero.type, {input, add(scale)});
  return apply(Function::Select, zero.type, {keep, scaled, add(zero)});
}

int NodeBuilder::uniform(graph::UniformOp op, const Indices &indices,
                         int predicate) {
  int word = randomWord(op, shapeOf(op.getResult()), indices, predicate);
  if (word < 0)
    return -1;
  Node scale(Node::Constant, elementTypeOf(op.getResult()));
  scale.value = 0x1p-32;
  int upper = apply(Function::And, i64, {word, integer(0xFFFFFF00)});
  return apply(Function::Mul, scale.type,
               {apply(Function::Convert, scale.type, upper), add(scale)});
}

static std::optional<Function> functionOf(Operation *op) {
  return TypeSwitch<Operation *, std::optional<Function>>(op)
      .Case([](graph::NegOp) { return Function::Neg; })
      .Case([](graph::ExpOp) { return Function::Exp; })
      .Case([](graph::LogOp) { return Function::Log; })
      .Case([](graph::SqrtOp) { return Function::Sqrt; })
      .Case([](graph::RsqrtOp) { return Function::Rsqrt; })
      .Case([](graph::TanhOp) { return Function::Tanh; })
      .Case([](graph::ErfOp) { return Function::Erf; })
      .Case([](graph::SigmoidOp) { return Function::Sigmoid; })
      .Case([](graph::ReluOp) { return Function::Relu; })
      .Case([](graph::AbsOp) { return Function::Abs; })
      .Case([](graph::SinOp) { return Function::Sin; })
      .Case([](graph::CosOp) { return Function::Cos; })
      .Case([](graph::AtanOp) { return Function::Atan; })
      .Case([](graph::AsinOp) { return Function::Asin; })
      .Case([](graph::AcosOp) { return Function::Acos; })
      .Case([](graph::AsinhOp) { return Function::Asinh; })
      .Case([](graph::AcoshOp) { return Function::Acosh; })
      .Case([](graph::AtanhOp) { return Function::Atanh; })
      .Case([](graph::FloorOp) { return Function::Floor; })
      .Case([](graph::NotOp) { return Function::Not; })
      .Case([](graph::AddOp) { return Function::Add; })
      .Case([](graph::SubOp) { return Function::Sub; })
      .Case([](graph::MulOp) { return Function::Mul; })
      .Case([](graph::DivOp) { return Function::Div; })
      .Case([](graph::MaxOp) { return Function::Max; })
      .Case([](graph::MinOp) { return Function::Min; })
      .Case([](graph::PowOp) { return Function::Pow; })
      .Case([](graph::AndOp) { return Function::And; })
      .Case([](graph::BitAndOp) { return Function::And; })
      .Case([](graph::OrOp) { return Function::Or; })
      .Case([](graph::CompareOp) { return Function::Compare; })
      .Case([](graph::SelectOp) { return Function::Select; })
      .Case([](graph::ConvertOp) { return Function::Convert; })
      .Default(std::nullopt);
}

int NodeBuilder::elementwise(Operation *op, const Indices &indices,
                             int predicate) {
  std::optional<Function> function = functionOf(op);
  if (!function)
    return fail(op, "is not computed by kernels");
  SmallVector<int> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(build(operand, indices, predicate));
    if (operands.back() < 0)
      return -1;
  }
  if (!hasFunction(*function, loops.nodes[operands.back()].type))
    return fail(op, "is not computed by kernels on this element type");
  auto compare = dyn_cast<graph::CompareOp>(op);
  Type type = elementTypeOf(op->getResult(0));
  if (function == Function::Convert && loops.nodes[operands[0]].type == type)
    return operands[0];
  return apply(*function, type, operands,
               compare ? static_cast<int64_t>(compare.getComparison()) : 0);
}
