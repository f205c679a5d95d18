// Graph ops to loops: shape ops become index arithmetic, the others nodes.

#include "compiler/codegen/Loops.h"

#include "compiler/codegen/Domain.h"
#include "compiler/codegen/Functions.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::getStrides;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

SmallVector<int64_t> Loops::sizes() const {
  SmallVector<int64_t> result;
  for (const Variable &variable : variables)
    result.push_back(variable.size);
  return result;
}

int64_t Loops::product(bool reduced) const {
  int64_t result = 1;
  for (const Variable &variable : variables)
    if (variable.isReduced == reduced)
      result *= variable.size;
  return result;
}

bool Loops::hasReductions() const {
  return llvm::any_of(
      nodes, [](const Node &node) { return node.kind == Node::Reduce; });
}

std::vector<uint64_t> Loops::dependences() const {
  uint64_t reduced = 0;
  for (auto [v, variable] : llvm::enumerate(variables))
    if (variable.isReduced)
      reduced |= uint64_t(1) << v;
  std::vector<uint64_t> sets(nodes.size());
  // Operands come before their users.
  for (auto [i, node] : llvm::enumerate(nodes)) {
    for (auto [v, c] : llvm::enumerate(node.expression.coefficients))
      if (c != 0)
        sets[i] |= uint64_t(1) << v;
    for (int operand : node.operands)
      sets[i] |= sets[operand];
    if (node.predicate >= 0)
      sets[i] |= sets[node.predicate];
    if (node.kind == Node::Reduce)
      sets[i] &= ~reduced;
  }
  return sets;
}

std::vector<int> Loops::passes() const {
  std::vector<int> result(nodes.size());
  for (auto [i, node] : llvm::enumerate(nodes)) {
    for (int operand : node.operands)
      result[i] = std::max(result[i], result[operand]);
    if (node.predicate >= 0)
      result[i] = std::max(result[i], result[node.predicate]);
    result[i] += node.kind == Node::Reduce;
  }
  return result;
}

bool Loops::isFull(const Store &store) const {
  for (auto [c, variable] :
       llvm::zip_equal(store.offset.coefficients, variables))
    if (c != 0 && variable.isReduced)
      return true;
  return false;
}

int Loops::numPasses() const {
  std::vector<int> passes = this->passes();
  int count = 0;
  for (auto [i, node] : llvm::enumerate(nodes))
    if (node.kind == Node::Reduce)
      count = std::max(count, passes[i]);
  for (const Store &store : stores)
    if (isFull(store))
      count = std::max(count, passes[store.node] + 1);
  return count;
}

namespace {

/// The index along one dim: linear, or the value of an i64 node.
struct Index {
  Affine affine;
  int node = -1;

  Index() = default;
  Index(Affine affine) : affine(std::move(affine)) {}
  explicit Index(int node) : node(node) {}
};
using Indices = SmallVector<Index, 4>;

/// Turns values at indices into nodes.
class NodeBuilder {
public:
  NodeBuilder(Body body, const Domain &domain, Loops &loops,
              std::string &reason)
      : domain(domain), loops(loops), reason(reason),
        context(body.results[0].getContext()),
        i64(IntegerType::get(context, 64)), i1(IntegerType::get(context, 1)) {
    for (auto [i, value] : llvm::enumerate(body.arguments))
      arguments[value] = i;
  }

  /// The node of `value` at `indices`; -1 if it cannot be built.
  int build(Value value, const Indices &indices, int predicate);
  int fail(Operation *op, const Twine &why) {
    reason = (op->getName().getStringRef() + ": " + why).str();
    return -1;
  }
  /// A cut that would have helped.
  std::optional<VariableSplit> split;

private:
  int add(Node node);
  int apply(Function function, Type type, ArrayRef<int> operands,
            int64_t parameter = 0);
  int integer(int64_t value);
  int indexNode(const Index &index);
  int inRange(const Index &index, int64_t lower, int64_t upper);
  int both(int x, int y);
  int load(unsigned argument, ArrayRef<int64_t> shape, Type type,
           const Indices &indices, int predicate);
  int buildOp(Operation *op, const Indices &indices, int predicate);
  int reshape(graph::ReshapeOp op, const Indices &indices, int predicate);
  int unfold(graph::UnfoldOp op, const Indices &indices, int predicate);
  int pad(graph::PadOp op, const Indices &indices, int predicate);
  int concat(graph::ConcatOp op, const Indices &indices, int predicate);
  int gather(graph::GatherOp op, const Indices &indices, int predicate);
  int reduce(graph::ReduceOp op, const Indices &indices);
  int dropout(graph::DropoutOp op, const Indices &indices, int predicate);
  int elementwise(Operation *op, const Indices &indices, int predicate);

  Affine constantIndex(int64_t value) {
    return Affine(domain.sizes.size(), value);
  }
  /// Whether `index` lies in [0, size) for sure, or never does.
  std::optional<bool> isInside(const Index &index, int64_t lower,
                               int64_t upper) {
    if (index.node >= 0)
      return std::nullopt;
    int64_t low = index.affine.minimum(domain.sizes);
    int64_t high = index.affine.maximum(domain.sizes);
    if (low >= lower && high < upper)
      return true;
    if (high < lower || low >= upper)
      return false;
    return std::nullopt;
  }

  const Domain &domain;
  Loops &loops;
  std::string &reason;
  MLIRContext *context;
  Type i64, i1;
  DenseMap<Value, unsigned> arguments;
  std::map<std::vector<int64_t>, int> known, built;
};

} // namespace

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
      .Case([&](graph::PadOp op) { return pad(op, indices, predicate); })
      .Case([&](graph::ConcatOp op) { return concat(op, indices, predicate); })
      .Case([&](graph::GatherOp op) { return gather(op, indices, predicate); })
      .Case([&](graph::ReduceOp op) { return reduce(op, indices); })
      .Case(
          [&](graph::DropoutOp op) { return dropout(op, indices, predicate); })
      .Default(
          [&](Operation *op) { return elementwise(op, indices, predicate); });
}

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

int NodeBuilder::dropout(graph::DropoutOp op, const Indices &indices,
                         int predicate) {
  int input = build(op.getInput(), indices, predicate);
  int seed = build(op.getSeed(), {}, predicate);
  int step = build(op.getStep(), {}, predicate);
  int microbatch = build(op.getMicrobatch(), {}, predicate);
  if (input < 0 || seed < 0 || step < 0 || microbatch < 0)
    return -1;
  Type i32 = IntegerType::get(op.getContext(), 32);
  auto widen = [&](int node) {
    return loops.nodes[node].type == i64 ? node
                                         : apply(Function::Convert, i64, node);
  };
  ArrayRef<int64_t> globalShape =
      op.getGlobalShape() ? *op.getGlobalShape() : shapeOf(op.getInput());
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
  double rate = op.getRate().convertToDouble();
  // word >= rate * 2^32 as unsigned numbers.
  int keep =
      apply(Function::Compare, i1,
            {apply(Function::And, i64,
                   {apply(Function::Convert, i64, word), integer(0xFFFFFFFF)}),
             integer(static_cast<int64_t>(std::ceil(rate * 0x1p32)))},
            static_cast<int64_t>(graph::Comparison::GE));
  Node scale(Node::Constant, loops.nodes[input].type);
  scale.value = 1 - rate;
  Node zero(Node::Constant, loops.nodes[input].type);
  int scaled = apply(Function::Div, zero.type, {input, add(scale)});
  return apply(Function::Select, zero.type, {keep, scaled, add(zero)});
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

/// A result is written at each parallel point once, or at every point once.
static bool isWrittenOnce(const Loops &loops, const Affine &offset,
                          int64_t count) {
  bool mentionsReduced = false;
  for (auto [c, variable] :
       llvm::zip_equal(offset.coefficients, loops.variables))
    mentionsReduced |= c != 0 && variable.isReduced;
  int64_t points = loops.product(false);
  if (mentionsReduced)
    points *= loops.product(true);
  return points == count && isDense(offset, loops.sizes(), count);
}

static LogicalResult buildStores(Body body, const Domain &domain, Loops &loops,
                                 NodeBuilder &builder, std::string &reason) {
  for (auto [i, result] : llvm::enumerate(body.results)) {
    const IndexMap *map = domain.getMap(result);
    if (!map) {
      reason = ("result " + Twine(i) + " is no function of the loop variables")
                   .str();
      return failure();
    }
    Affine offset = linearize(*map, shapeOf(result), domain.sizes.size());
    if (!isWrittenOnce(loops, offset, graph::numElements(shapeOf(result)))) {
      reason =
          ("result " + Twine(i) + " has other loop variables than the rest")
              .str();
      return failure();
    }
    int node = builder.build(result, Indices(map->begin(), map->end()), -1);
    if (node < 0)
      return failure();
    loops.stores.push_back({node, static_cast<unsigned>(i), offset});
  }
  return success();
}

static LogicalResult buildScatter(graph::ScatterAddOp op, const Domain &domain,
                                  Loops &loops, NodeBuilder &builder) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t numIndexDims = shapeOf(op.getIndices()).size() - batch;
  const IndexMap &map = *domain.getMap(op.getUpdates());
  Indices at(map.begin(), map.end());
  Indices indexAt(at.begin(), at.begin() + batch);
  indexAt.append(at.begin() + axis, at.begin() + axis + numIndexDims);
  Scatter scatter;
  scatter.indices = builder.build(op.getIndices(), indexAt, -1);
  scatter.updates = builder.build(op.getUpdates(), at, -1);
  if (scatter.indices < 0 || scatter.updates < 0)
    return failure();
  IndexMap destination(map.begin(), map.begin() + axis);
  destination.push_back(Affine(domain.sizes.size()));
  destination.append(map.begin() + axis + numIndexDims, map.end());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  scatter.offset = linearize(destination, shape, domain.sizes.size());
  scatter.stride = getStrides(shape)[axis];
  scatter.limit = shape[axis];
  loops.scatter = scatter;
  return success();
}

FailureOr<Loops> polyrank::codegen::buildLoops(Body body, std::string &reason) {
  FailureOr<Domain> domain = Domain::infer(body, reason);
  if (failed(domain))
    return failure();
  while (true) {
    if (domain->variables.size() > 60) {
      reason = "more loops than a kernel has";
      return failure();
    }
    Loops loops;
    loops.variables = domain->variables;
    loops.numArguments = body.arguments.size();
    for (Value argument : body.arguments)
      loops.argumentTypes.push_back(cast<RankedTensorType>(argument.getType()));
    for (Value result : body.results)
      loops.resultTypes.push_back(cast<RankedTensorType>(result.getType()));
    NodeBuilder builder(body, *domain, loops, reason);
    auto scatter = body.results.size() == 1
                       ? body.results[0].getDefiningOp<graph::ScatterAddOp>()
                       : graph::ScatterAddOp();
    bool isScatter = scatter && llvm::is_contained(domain->ops, scatter);
    if (succeeded(isScatter
                      ? buildScatter(scatter, *domain, loops, builder)
                      : buildStores(body, *domain, loops, builder, reason)))
      return loops;
    if (!builder.split)
      return failure();
    domain->split(*builder.split);
  }
}

std::string Loops::toString() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](const Affine &affine) {
    os << "[" << affine.constant;
    for (auto [v, c] : llvm::enumerate(affine.coefficients))
      if (c != 0)
        os << " + " << c << " v" << v;
    os << "]";
  };
  for (auto [v, variable] : llvm::enumerate(variables))
    os << "v" << v << " < " << variable.size
       << (variable.isReduced ? " reduced\n" : "\n");
  static constexpr StringRef kinds[] = {"load",  "constant", "index",
                                        "range", "apply",    "reduce"};
  for (auto [i, node] : llvm::enumerate(nodes)) {
    os << "n" << i << " = " << kinds[node.kind] << " " << node.type << " f"
       << static_cast<int>(node.function) << " p" << node.parameter << " "
       << node.value << " ";
    if (!node.expression.coefficients.empty())
      print(node.expression);
    for (int operand : node.operands)
      os << " n" << operand;
    if (node.predicate >= 0)
      os << " if n" << node.predicate;
    os << "\n";
  }
  for (const Store &store : stores) {
    os << "store r" << store.result;
    print(store.offset);
    os << " = n" << store.node << "\n";
  }
  return text;
}
