// Splits the optimizer's updates over the devices that would all do the same:
// ZeRO stage 1 (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models, 2020, 5.1).
//
// The gradient of a parameter that is replicated over some axes is a partial sum
// over them. Reducing it and gathering the new parameter moves as many bytes as
// all-reducing the gradient, but each device then updates one block and keeps
// only that block of the optimizer state.

#include <map>

#include "compiler/sharding/Passes.h"
#include "compiler/sharding/Why.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace polyrank;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;

namespace polyrank::sharding {
#define GEN_PASS_DEF_SHARDUPDATES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {

/// How one parameter becomes a new one.
struct Update {
  BlockArgument parameter;
  /// The parameter, then its state, as the numbers of arguments and of the
  /// results that take their places.
  SmallVector<std::pair<unsigned, unsigned>> boundary;
  /// The reduction of the gradient.
  sharding::ReshardOp reduction;
  /// From there on: elementwise, on the parameter's shape.
  llvm::SetVector<Operation *> ops;

  ArrayRef<int64_t> getShape() const { return graph::getShape(parameter); }
  LayoutAttr getLayout() const { return sharding::getLayout(parameter); }
  /// Over what the gradient is a partial sum.
  ArrayRef<AxisRef> getAxes() {
    return sharding::getLayout(reduction->getOperand(0)).getPartialAxes();
  }
};

/// The blocks of a split update: of one dim, or of the tensor as a row.
struct Blocks {
  bool isRow = false;
  int64_t dim = 0;
  /// The layout of the row before it is split further.
  DimAttr row;
};

class UpdateSharder {
public:
  UpdateSharder(func::FuncOp function, int64_t threshold)
      : function(function), boundary(function), threshold(threshold),
        terminator(function.getBody().front().getTerminator()) {}

  void run();

private:
  void findBoundary();
  std::optional<Update> find(BlockArgument parameter);
  bool collect(Value value, Update &update);
  bool isAlone(Update &update);
  std::optional<Blocks> chooseBlocks(Update &update);
  bool mayBeRow(const Update &update);
  RankedTensorType split(RankedTensorType type, const Blocks &blocks,
                         ArrayRef<AxisRef> axes);
  void rewrite(Update &update, const Blocks &blocks);

  func::FuncOp function;
  graph::Boundary boundary;
  int64_t threshold;
  Operation *terminator;
  /// Per argument with a symbol: the result that takes its place.
  llvm::DenseMap<unsigned, unsigned> resultOf;
  /// The state of a parameter.
  llvm::DenseMap<Attribute, SmallVector<unsigned>> statesOf;
};

} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Whether devices hold the same blocks, whatever their padding contains.
static bool haveSameBlocks(LayoutAttr a, LayoutAttr b) {
  return llvm::all_of(llvm::zip_equal(a.getDims(), b.getDims()), [](auto dims) {
    auto [x, y] = dims;
    return x.getAxes() == y.getAxes() && x.getPadded() == y.getPadded() &&
           !x.hasHalo() && !y.hasHalo();
  });
}

/// Whether every operand and the result are the same index space.
static bool isElementwise(graph::GraphOp op) {
  graph::ShardingRule rule = op.getShardingRule();
  return rule.results.size() == 1 && !rule.operands.empty() &&
         llvm::all_of(rule.operands,
                      [&](const auto &operand) {
                        return operand == rule.results.front();
                      }) &&
         llvm::all_of(rule.factors, [](const graph::Factor &factor) {
           return factor.kind == graph::FactorKind::Parallel;
         });
}

/// "data: each device keeps one of 2 parts".
static std::string nameParts(sharding::MeshAttr mesh, ArrayRef<AxisRef> axes) {
  return sharding::describe(mesh, axes) + ": each device keeps one of " +
         std::to_string(sharding::product(axes)) + " parts";
}

void UpdateSharder::findBoundary() {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (std::optional<unsigned> replaced = boundary.getReplaced(i))
      resultOf[*replaced] = i;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto state = boundary.getArgument<graph::StateAttr>(i);
        state && state.getOf() && resultOf.contains(i))
      statesOf[state.getOf()].push_back(i);
}

/// Adds what `value` is computed by, back to the gradient's reduction, the
/// parameter, its state and scalars; false where something else comes in.
bool UpdateSharder::collect(Value value, Update &update) {
  if (typeOf(value).getShape() != update.getShape() ||
      !haveSameBlocks(sharding::getLayout(value), update.getLayout()))
    return false;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getOwner() == update.parameter.getOwner() &&
           llvm::any_of(update.boundary, [&](auto entry) {
             return entry.first == argument.getArgNumber();
           });
  Operation *op = value.getDefiningOp();
  if (auto reshard = dyn_cast<sharding::ReshardOp>(op)) {
    bool isFirst = !update.reduction || update.reduction == reshard;
    update.reduction = reshard;
    return isFirst && reshard->getNumResults() == 1;
  }
  if (!update.ops.insert(op))
    return true;
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
    return graph::getShape(broadcast.getInput()).empty();
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  return graphOp && isElementwise(graphOp) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return collect(operand, update);
         });
}

/// Whether the state, and what is computed on the way, is for the new values
/// alone: else it would be needed whole as well.
bool UpdateSharder::isAlone(Update &update) {
  auto isInside = [&](OpOperand &use) {
    if (use.getOwner() == terminator)
      return llvm::any_of(update.boundary, [&](auto entry) {
        return entry.second == use.getOperandNumber();
      });
    return update.ops.contains(use.getOwner());
  };
  auto states = ArrayRef(update.boundary).drop_front();
  return llvm::all_of(update.reduction->getUses(), isInside) &&
         llvm::all_of(states,
                      [&](auto entry) {
                        return llvm::all_of(
                            function.getArgument(entry.first).getUses(),
                            isInside);
                      }) &&
         llvm::all_of(update.ops, [&](Operation *op) {
           return isa<graph::ConstantOp, graph::BroadcastOp>(op) ||
                  llvm::all_of(op->getUses(), isInside);
         });
}

std::optional<Update> UpdateSharder::find(BlockArgument parameter) {
  unsigned number = parameter.getArgNumber();
  auto role = boundary.getArgument<graph::ParameterAttr>(number);
  LayoutAttr layout = sharding::getLayout(parameter);
  if (!role || !layout || !resultOf.contains(number) ||
      graph::numElements(layout.getLocalShape(graph::getShape(parameter))) <
          threshold)
    return std::nullopt;
  Update update;
  update.parameter = parameter;
  update.boundary.push_back({number, resultOf.at(number)});
  for (unsigned state : statesOf.lookup(role.getSymbol()))
    update.boundary.push_back({state, resultOf.at(state)});
  for (auto [argument, result] : update.boundary)
    if (!collect(terminator->getOperand(result), update))
      return std::nullopt;
  if (!update.reduction || update.ops.empty() || !isAlone(update))
    return std::nullopt;
  LayoutAttr from = sharding::getLayout(update.reduction->getOperand(0));
  if (!from.isPartial() || !haveSameBlocks(from, layout))
    return std::nullopt;
  return update;
}

/// Whether state can be stored as a row: its parameter's elements are stored in
/// their order, without gaps.
bool UpdateSharder::mayBeRow(const Update &update) {
  DenseI64ArrayAttr view = boundary.getView(update.parameter.getArgNumber());
  if (!view)
    return true;
  int64_t expected = 1;
  for (auto [size, stride] :
       llvm::reverse(llvm::zip_equal(update.getShape(),
                                     view.asArrayRef().drop_front()))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

/// A device's block shall be consecutive elements of what it has now, so that
/// nothing needs to be copied: blocks of the first dim that is more than one
/// element there, else of all elements as a row.
std::optional<Blocks> UpdateSharder::chooseBlocks(Update &update) {
  LayoutAttr layout = update.getLayout();
  ArrayRef<int64_t> shape = update.getShape();
  SmallVector<int64_t> local = layout.getLocalShape(shape);
  int64_t parts = sharding::product(update.getAxes());
  Blocks blocks;
  blocks.dim = llvm::find_if(local, [](int64_t n) { return n != 1; }) -
               local.begin();
  if (graph::numElements(local) % parts != 0)
    return std::nullopt;
  if (local[blocks.dim] % parts == 0)
    return blocks;
  // The blocks of a row are those of its most major dim.
  int64_t first = llvm::find_if(shape, [](int64_t n) { return n != 1; }) -
                  shape.begin();
  for (auto [d, dim] : llvm::enumerate(layout.getDims()))
    if (dim.getPadded() || (static_cast<int64_t>(d) != first &&
                            !dim.getAxes().empty()))
      return std::nullopt;
  if (!mayBeRow(update))
    return std::nullopt;
  blocks.isRow = true;
  blocks.row = layout.getDim(first);
  return blocks;
}

/// The type of one of the update's values when it is split over `axes` too.
RankedTensorType UpdateSharder::split(RankedTensorType type,
                                      const Blocks &blocks,
                                      ArrayRef<AxisRef> axes) {
  LayoutAttr layout = sharding::getLayout(type);
  DimAttr dim = blocks.isRow ? blocks.row : layout.getDim(blocks.dim);
  SmallVector<AxisRef> all(dim.getAxes());
  llvm::append_range(all, axes);
  dim = DimAttr::get(layout.getMesh(), all, dim.getPadded(), dim.getFill());
  if (!blocks.isRow)
    return sharding::withLayout(type, layout.withDim(blocks.dim, dim));
  return sharding::withLayout(
      RankedTensorType::get({type.getNumElements()}, type.getElementType()),
      LayoutAttr::get(layout.getMesh(), dim, layout.getPartialKind(),
                      layout.getPartialAxes(), layout.getPlaces()));
}

void UpdateSharder::rewrite(Update &update, const Blocks &blocks) {
  SmallVector<AxisRef> axes(update.getAxes());
  SmallVector<Operation *> ops = update.ops.takeVector();
  llvm::sort(ops, [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  });
  OpBuilder builder(terminator);
  sharding::MeshAttr mesh = update.getLayout().getMesh();
  std::string reason = "each device over " + sharding::describe(mesh, axes) +
                       " updates its part (--zero 1)";
  std::string name = boundary.getName(update.parameter.getArgNumber());
  auto reshaped = [&](Value value, RankedTensorType type) -> Value {
    if (!blocks.isRow)
      return value;
    return graph::ReshapeOp::create(builder, value.getLoc(), type, value);
  };
  auto reshard = [&](Value value, LayoutAttr to, DictionaryAttr why) {
    NamedAttrList reasons(why);
    auto say = [&](StringRef key, const std::string &text) {
      reasons.set(key, builder.getStringAttr(text));
    };
    say("from", sharding::describe(sharding::getLayout(value)));
    say("to", sharding::describe(to));
    if (!why) {
      say("constraint", reason);
      say("user", "parameter '" + name + "'");
      if (Operation *producer = value.getDefiningOp())
        say("producer", sharding::describe(producer));
    }
    auto op = sharding::ReshardOp::create(builder, value.getLoc(), value, to);
    op.setWhyAttr(reasons.getDictionary(builder.getContext()));
    return op->getResult(0);
  };

  IRMapping mapping;
  builder.setInsertionPoint(update.reduction);
  Value gradient = update.reduction->getOperand(0);
  Value result = update.reduction->getResult(0);
  mapping.map(result,
              reshard(reshaped(gradient, split(typeOf(gradient), blocks, {})),
                      sharding::getLayout(split(typeOf(result), blocks, axes)),
                      update.reduction.getWhyAttr()));
  builder.setInsertionPoint(ops.front());
  RankedTensorType type = typeOf(update.parameter);
  RankedTensorType row = split(type, blocks, {});
  mapping.map(update.parameter,
              reshard(reshaped(update.parameter, row),
                      sharding::getLayout(split(type, blocks, axes)), {}));
  int64_t base = 0;
  if (auto view = boundary.getView(update.parameter.getArgNumber()))
    base = view[0];
  for (auto [argument, number] : ArrayRef(update.boundary).drop_front()) {
    BlockArgument state = function.getArgument(argument);
    state.setType(split(typeOf(state), blocks, axes));
    if (blocks.isRow)
      boundary.setView(argument, {base, 1});
  }
  for (Operation *op : ops) {
    builder.setInsertionPoint(op);
    RankedTensorType part = split(typeOf(op->getResult(0)), blocks, axes);
    if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
      auto value = cast<SplatElementsAttr>(constant.getValue());
      mapping.map(op->getResult(0),
                  graph::ConstantOp::create(
                      builder, op->getLoc(), part,
                      value.resizeSplat(sharding::withLayout(part, nullptr))));
      continue;
    }
    builder.clone(*op, mapping)->getResult(0).setType(part);
  }

  builder.setInsertionPoint(terminator);
  for (auto [i, entry] : llvm::enumerate(update.boundary)) {
    Value value =
        mapping.lookupOrDefault(terminator->getOperand(entry.second));
    if (i == 0) {
      value = reshard(value, sharding::getLayout(row), {});
      value = reshaped(value, type);
    }
    terminator->setOperand(entry.second, value);
  }
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  update.reduction->erase();
}

void UpdateSharder::run() {
  findBoundary();
  unsigned whole = 0;
  llvm::MapVector<std::string, unsigned, std::map<std::string, unsigned>> split;
  for (BlockArgument argument : function.getArguments()) {
    std::optional<Update> update = find(argument);
    if (!update)
      continue;
    if (std::optional<Blocks> blocks = chooseBlocks(*update)) {
      ++split[nameParts(update->getLayout().getMesh(), update->getAxes())];
      rewrite(*update, *blocks);
    } else {
      ++whole;
    }
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  for (auto &[parts, count] : split)
    function.emitRemark() << "the updates of " << count
                          << (count == 1 ? " parameter are" : " parameters are")
                          << " split over " << parts
                          << " of their optimizer state (--zero 0 keeps all)";
  if (whole > 0)
    function.emitRemark() << whole << " large "
                          << (whole == 1 ? "parameter does" : "parameters do")
                          << " not divide and "
                          << (whole == 1 ? "is" : "are")
                          << " updated whole by each device";
}

namespace {
struct ShardUpdates : sharding::impl::ShardUpdatesBase<ShardUpdates> {
  using ShardUpdatesBase::ShardUpdatesBase;

  void runOnOperation() override {
    if (!getOperation().isDeclaration())
      UpdateSharder(getOperation(), threshold).run();
  }
};
} // namespace
