// Random meshes, constraints and layouts.

#include "test/random/Layouts.h"

#include "dialects/graph/Boundary.h"
#include "dialects/graph/LayoutVerifier.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Reason.h"
#include "test/random/Stages.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::FactorKind;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::Fill;
using sharding::LayoutAttr;
using sharding::ReductionKind;

/// Devices of the largest mesh.
constexpr int64_t maxDevices = 12;

RandomMesh::RandomMesh(MLIRContext &context, Random &random, int64_t pipe) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  int64_t devices = std::max<int64_t>(pipe, 1);
  for (int64_t i = 0, count = random.pick({1, 2, 2, 3}); i < count; ++i) {
    int64_t size = random.pick({2, 2, 3, 4, 4, 6});
    if (devices * size > maxDevices)
      continue;
    devices *= size;
    names.push_back(StringAttr::get(&context, std::string(1, char('a' + i))));
    sizes.push_back(size);
  }
  size_t numAxes = sizes.size();
  if (pipe) {
    names.push_back(StringAttr::get(&context, pipeAxis));
    sizes.push_back(pipe);
  }
  mesh = sharding::MeshAttr::get(&context, names, sizes);
  for (auto [axis, size] :
       llvm::enumerate(ArrayRef(sizes).take_front(numAxes))) {
    auto number = static_cast<int32_t>(axis);
    if (size < 4 || random.chance(40)) {
      subAxes.push_back(mesh.getAxis(number));
      continue;
    }
    int64_t major = size == 6 ? random.pick({2, 3}) : 2;
    subAxes.push_back({number, 1, major});
    subAxes.push_back({number, major, size / major});
  }
}

static bool isClosed(const graph::Factor &factor) {
  return factor.kind == FactorKind::Composite ||
         factor.kind == FactorKind::Replicated;
}

namespace {
/// The use of each sub-axis in one op.
struct Assignment {
  ReductionKind kind = ReductionKind::Sum;
  SmallVector<SmallVector<AxisRef>> factors, partial; // per factor, operand
  SmallVector<int64_t> padded;                        // per factor, or 0
};
} // namespace

static Assignment drawAssignment(const graph::ShardingRule &rule,
                                 unsigned numOperands, const RandomMesh &mesh,
                                 Random &random) {
  Assignment drawn;
  drawn.kind = static_cast<ReductionKind>(random.below(3));
  drawn.factors.resize(rule.factors.size());
  drawn.partial.resize(numOperands);
  drawn.padded.assign(rule.factors.size(), 0);
  SmallVector<int> open;
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (!isClosed(factor) && factor.size > 1)
      open.push_back(i);
  SmallVector<unsigned> passing, together;
  for (unsigned i = 0; i < numOperands; ++i) {
    graph::PartialPass pass = rule.getPass(drawn.kind, i);
    if (pass == graph::PartialPass::Together)
      together.push_back(i);
    else if (pass != graph::PartialPass::None)
      passing.push_back(i);
  }
  SmallVector<AxisRef> subAxes(mesh.subAxes);
  if (random.chance(50))
    std::reverse(subAxes.begin(), subAxes.end());
  for (AxisRef subAxis : subAxes) {
    int64_t choice = random.below(10);
    if (choice < 5 && !open.empty()) {
      drawn.factors[random.pick(open)].push_back(subAxis);
    } else if (choice < 7 && !passing.empty()) {
      unsigned operand = random.pick(passing);
      drawn.partial[operand].push_back(subAxis);
      if (rule.getPass(drawn.kind, operand) == graph::PartialPass::Any)
        for (unsigned other : passing)
          if (other != operand && random.chance(50) &&
              rule.getPass(drawn.kind, other) == graph::PartialPass::Any)
            drawn.partial[other].push_back(subAxis);
    } else if (choice < 9 && !together.empty()) {
      for (unsigned operand : together)
        drawn.partial[operand].push_back(subAxis);
    }
  }
  for (int factor : open) {
    int64_t size = rule.factors[factor].size,
            blocks = sharding::product(drawn.factors[factor]);
    if (size % blocks != 0)
      drawn.padded[factor] = size / blocks * blocks + blocks;
    else if (blocks > 1 && random.chance(20))
      drawn.padded[factor] = size + blocks;
  }
  return drawn;
}

/// The kind whose identity the padding of this factor must hold, if any.
static std::optional<ReductionKind> getReduced(const graph::ShardingRule &rule,
                                               int factor) {
  if (!rule.isResultOnly(factor))
    for (unsigned i = 0; i < rule.results.size(); ++i)
      if (!rule.resultHas(i, factor))
        return rule.factors[factor].reduction;
  return std::nullopt;
}

static LayoutAttr layOut(const graph::ShardingRule &rule, unsigned number,
                         RankedTensorType type, const Assignment &drawn,
                         ArrayRef<AxisRef> partial, bool isResult,
                         sharding::MeshAttr mesh, Random &random) {
  SmallVector<DimAttr> dims;
  for (auto [d, factors] : llvm::enumerate(isResult ? rule.results[number]
                                                    : rule.operands[number])) {
    if (factors.size() == 1 &&
        rule.factors[factors[0]].kind == FactorKind::Halo) {
      int factor = factors[0];
      Fill fill = isResult ? Fill::Undefined
                           : random.pick({Fill::Undefined, Fill::Zero});
      dims.push_back(rule.layDim(
          isResult, number, d, type.getDimSize(d), mesh, drawn.factors[factor],
          drawn.padded[factor] ? drawn.padded[factor]
                               : rule.factors[factor].size,
          fill));
      continue;
    }
    SmallVector<AxisRef> axes;
    for (int factor : factors)
      llvm::append_range(axes, drawn.factors[factor]);
    int64_t padded = factors.size() == 1 ? drawn.padded[factors[0]] : 0;
    if (type.getDimSize(d) % sharding::product(axes) != 0 && !padded)
      return {}; // padding that a dim of several factors cannot have
    Fill fill = Fill::Undefined;
    if (padded && !isResult) {
      if (auto kind = getReduced(rule, factors[0]))
        fill = sharding::identityFill(*kind);
      else
        fill = random.pick({Fill::Undefined, Fill::Zero, Fill::NegInf});
    }
    dims.push_back(DimAttr::get(mesh, axes, padded, fill));
  }
  return LayoutAttr::get(mesh, dims, drawn.kind, partial);
}

/// Returns true if the verifier accepts `op` with these layouts.
static bool accepts(graph::GraphOp op, const graph::ShardingRule &rule,
                    const Labelling &labelling) {
  Block block;
  Operation *copy = op->clone();
  for (auto [i, layout] : llvm::enumerate(labelling.operands))
    copy->setOperand(
        i, block.addArgument(
               sharding::withLayout(
                   cast<RankedTensorType>(op->getOperand(i).getType()), layout),
               op->getLoc()));
  for (auto [result, layout] :
       llvm::zip_equal(copy->getResults(), labelling.results))
    result.setType(
        sharding::withLayout(cast<RankedTensorType>(result.getType()), layout));
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  bool accepted = succeeded(graph::verifyLayouts(copy, rule));
  copy->destroy();
  return accepted;
}

/// Returns true if a square root of the op's result is taken within a few ops.
/// An optimizer's second moment is never negative, but its partial summands may
/// be, and with rounding their sum may be below zero.
static bool feedsRoot(Operation *op, int distance = 4) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return isa<graph::SqrtOp>(user) ||
           (distance > 0 && isa<graph::GraphOp>(user) &&
            feedsRoot(user, distance - 1));
  });
}

static std::optional<Labelling> tryLabelling(graph::GraphOp op,
                                             const graph::ShardingRule &rule,
                                             const RandomMesh &mesh,
                                             Random &random) {
  unsigned numOperands = op->getNumOperands();
  Assignment drawn = drawAssignment(rule, numOperands, mesh, random);
  Labelling labelling;
  for (unsigned i = 0; i < numOperands; ++i)
    labelling.operands.push_back(
        layOut(rule, i, cast<RankedTensorType>(op->getOperand(i).getType()),
               drawn, drawn.partial[i], false, mesh.mesh, random));
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    SmallVector<AxisRef> partial;
    auto add = [&](ArrayRef<AxisRef> axes) {
      for (AxisRef axis : axes)
        if (!llvm::is_contained(partial, axis))
          partial.push_back(axis);
    };
    for (ArrayRef<AxisRef> axes : drawn.partial)
      add(axes);
    Assignment result = drawn;
    for (auto [factor, axes] : llvm::enumerate(drawn.factors))
      if (!axes.empty() && !rule.resultHas(i, factor) &&
          rule.factors[factor].kind != FactorKind::Parallel) {
        if (partial.empty())
          result.kind = rule.factors[factor].reduction;
        add(axes);
      }
    labelling.results.push_back(
        layOut(rule, i, cast<RankedTensorType>(op->getResult(i).getType()),
               result, partial, true, mesh.mesh, random));
  }
  for (const auto *layouts : {&labelling.operands, &labelling.results})
    if (!llvm::all_of(*layouts, [](LayoutAttr layout) { return !!layout; }))
      return std::nullopt;
  if (!accepts(op, rule, labelling))
    return std::nullopt;
  bool isPartial = llvm::any_of(
      labelling.results, [](LayoutAttr layout) { return layout.isPartial(); });
  if (isPartial && feedsRoot(op))
    return std::nullopt;
  return labelling;
}

Labelling polyrank::test::drawLabelling(graph::GraphOp op,
                                        const RandomMesh &mesh,
                                        Random &random) {
  graph::ShardingRule rule = op.getShardingRule();
  for (int attempt = 0; attempt < 6; ++attempt)
    if (auto labelling = tryLabelling(op, rule, mesh, random))
      return *labelling;
  Labelling whole;
  auto replicated = [&](Value value) {
    return LayoutAttr::getReplicated(
        mesh.mesh, cast<RankedTensorType>(value.getType()).getRank());
  };
  for (Value operand : op->getOperands())
    whole.operands.push_back(replicated(operand));
  for (Value result : op->getResults())
    whole.results.push_back(replicated(result));
  return whole;
}

/// A layout of a value on its own. `numFixed` leading dims stay whole.
static LayoutAttr drawLayout(RankedTensorType type, const RandomMesh &mesh,
                             Random &random, bool mayBePartial,
                             std::optional<Fill> fill, int64_t numFixed = 0,
                             bool hasEmptyBlocks = true) {
  SmallVector<SmallVector<AxisRef>> axes(type.getRank());
  SmallVector<AxisRef> partial;
  SmallVector<int64_t> dims;
  for (int64_t d = numFixed; d < type.getRank(); ++d)
    if (type.getDimSize(d) > 1)
      dims.push_back(d);
  for (AxisRef subAxis : mesh.subAxes) {
    int64_t choice = random.below(10);
    if (choice < 5 && !dims.empty()) {
      int64_t dim = random.pick(dims);
      if (hasEmptyBlocks ||
          sharding::product(axes[dim]) * subAxis.size <= type.getDimSize(dim))
        axes[dim].push_back(subAxis);
    } else if (choice < 7 && mayBePartial) {
      partial.push_back(subAxis);
    }
  }
  SmallVector<DimAttr> layout;
  for (auto [list, size] : llvm::zip_equal(axes, type.getShape())) {
    int64_t blocks = sharding::product(list);
    if (size % blocks == 0)
      layout.push_back(DimAttr::get(mesh.mesh, list));
    else if (fill)
      layout.push_back(DimAttr::get(mesh.mesh, list,
                                    size / blocks * blocks + blocks, *fill));
    else
      layout.push_back(DimAttr::get(mesh.mesh, {}));
  }
  return LayoutAttr::get(mesh.mesh, layout, ReductionKind::Sum, partial);
}

void polyrank::test::drawConstraints(func::FuncOp function,
                                     const RandomMesh &mesh, Random &random) {
  sharding::setMesh(function->getParentOfType<ModuleOp>(), mesh.mesh);
  auto draw = [&](RankedTensorType type, std::optional<Fill> fill,
                  int64_t numFixed, int64_t result) {
    LayoutAttr layout = drawLayout(type, mesh, random, false, fill, numFixed,
                                   /*hasEmptyBlocks=*/false);
    int64_t priority = random.below(3);
    SmallVector<bool> open;
    for (int64_t d = 0; d < type.getRank(); ++d)
      open.push_back(d >= numFixed && random.chance(50));
    return sharding::ConstraintAttr::get(function.getContext(), layout, open,
                                         priority, "", result);
  };
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    graph::Boundary boundary(function);
    bool isInput = !!boundary.getArgument<graph::InputAttr>(i);
    bool isParameter = !!boundary.getArgument<graph::ParameterAttr>(i);
    if ((!isInput && !isParameter) || random.chance(40))
      continue;
    sharding::setConstraint(function, i,
                            draw(cast<RankedTensorType>(argument.getType()),
                                 isInput ? std::optional<Fill>() : Fill::Zero,
                                 isInput, 0));
  }
  function.walk([&](graph::GraphOp op) {
    if (op->getNumOperands() == 0 || graph::isInScan(op) || !random.chance(6))
      return;
    int64_t result = random.below(op->getNumResults());
    sharding::setConstraint(
        op, draw(cast<RankedTensorType>(op->getResult(result).getType()),
                 std::nullopt, 0, result));
  });
}

namespace {
class LayoutWriter {
public:
  LayoutWriter(const RandomMesh &mesh, Random &random)
      : mesh(mesh), random(random) {}

  void write(func::FuncOp function);

private:
  void setType(Value value, LayoutAttr layout) {
    value.setType(
        sharding::withLayout(cast<RankedTensorType>(value.getType()), layout));
  }
  LayoutAttr draw(Value value, bool mayBePartial, std::optional<Fill> fill,
                  int64_t numFixed = 0) {
    return drawLayout(
        sharding::withLayout(cast<RankedTensorType>(value.getType()), nullptr),
        mesh, random, mayBePartial, fill, numFixed);
  }
  /// Reshards a use to the layout that it requires.
  void demand(OpOperand &use, LayoutAttr layout);
  void writeBlock(Block &block);
  void writeMicrobatches(graph::MicrobatchesOp op);

  const RandomMesh &mesh;
  Random &random;
};
} // namespace

void LayoutWriter::demand(OpOperand &use, LayoutAttr layout) {
  Value value = use.get();
  if (sharding::getLayout(value) == layout)
    return;
  OpBuilder builder(use.getOwner());
  auto type =
      sharding::withLayout(cast<RankedTensorType>(value.getType()), layout);
  sharding::Reason why;
  why.producer = why.user = why.from = why.to = why.constraint = "drawn";
  auto reshard = sharding::ReshardOp::create(builder, use.getOwner()->getLoc(),
                                             TypeRange(type), ValueRange(value),
                                             why.get(builder.getContext()));
  use.set(reshard->getResult(0));
}

void LayoutWriter::writeMicrobatches(graph::MicrobatchesOp op) {
  Block &body = op.getBody().front();
  setType(op.getIndex(), LayoutAttr::getReplicated(mesh.mesh, 0));
  for (auto [i, slice] : llvm::enumerate(op.getSlices())) {
    OpOperand &use = op->getOpOperand(i);
    LayoutAttr layout = draw(use.get(), random.chance(20), Fill::Undefined, 1);
    demand(use, layout);
    slice.setType(graph::MicrobatchesOp::getSliceType(
        cast<RankedTensorType>(use.get().getType())));
  }
  unsigned numOf = op.getOf().size();
  for (auto [i, carried] : llvm::enumerate(op.getCarried())) {
    OpOperand &use = op->getOpOperand(numOf + i);
    demand(use, draw(use.get(), random.chance(20), Fill::Zero));
    carried.setType(use.get().getType());
  }
  writeBlock(body);
  Operation *yield = body.getTerminator();
  for (OpOperand &use : yield->getOpOperands()) {
    unsigned i = use.getOperandNumber(), numSums = op.getNumSums();
    if (i >= numSums)
      demand(use, sharding::getLayout(op.getCarried()[i - numSums]));
    else if (LayoutAttr layout = sharding::getLayout(use.get());
             random.chance(30) ||
             (layout.isPartial() &&
              layout.getPartialKind() != ReductionKind::Sum))
      demand(use, draw(use.get(), true, Fill::Undefined));
    op->getResult(i).setType(use.get().getType());
  }
}

void LayoutWriter::writeBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op)) {
      writeMicrobatches(microbatches);
      continue;
    }
    Labelling labelling = drawLabelling(cast<graph::GraphOp>(op), mesh, random);
    for (auto [use, layout] :
         llvm::zip_equal(op.getOpOperands(), labelling.operands))
      demand(use, layout);
    for (auto [result, layout] :
         llvm::zip_equal(op.getResults(), labelling.results))
      setType(result, layout);
  }
}

void LayoutWriter::write(func::FuncOp function) {
  sharding::setMesh(function->getParentOfType<ModuleOp>(), mesh.mesh);
  graph::Boundary boundary(function);
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    bool isState = boundary.isKept(i);
    bool isInput = !!boundary.getArgument<graph::InputAttr>(i);
    setType(argument,
            draw(argument, false,
                 isState ? std::optional<Fill>(Fill::Zero) : std::nullopt,
                 isInput));
  }
  Block &body = function.getBody().front();
  writeBlock(body);
  Operation *terminator = body.getTerminator();
  for (OpOperand &use : terminator->getOpOperands()) {
    std::optional<unsigned> replaced =
        boundary.getReplaced(use.getOperandNumber());
    demand(use, replaced ? sharding::getLayout(function.getArgument(*replaced))
                         : draw(use.get(), false, std::nullopt));
  }
  function.setType(FunctionType::get(function.getContext(),
                                     body.getArgumentTypes(),
                                     terminator->getOperandTypes()));
}

void polyrank::test::drawLayouts(func::FuncOp function, const RandomMesh &mesh,
                                 Random &random) {
  LayoutWriter(mesh, random).write(function);
}
