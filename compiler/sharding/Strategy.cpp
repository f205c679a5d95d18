// Strategy: constraints from what the user wrote.

#include "compiler/sharding/Strategy.h"

#include "compiler/sharding/Passes.h"
#include "compiler/sharding/ShardPattern.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using shard::AxisRef;
using shard::DimAttr;
using shard::LayoutAttr;

namespace polyrank::sharding {
#define GEN_PASS_DEF_APPLYSTRATEGY
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {

/// What happens to one dim of a parameter in the program.
struct DimUse {
  bool isSliced = false;
  bool isHeads = false;
};

class Strategy {
public:
  Strategy(ModuleOp module, func::FuncOp function,
           const StrategyOptions &options)
      : module(module), function(function), mesh(options.mesh),
        builder(module.getContext()) {}

  LogicalResult add(ShardPattern pattern);
  LogicalResult addDataDefault();
  LogicalResult checkAxesAreUsed();

private:
  struct Found {
    LayoutAttr layout;
    SmallVector<bool> open;
  };

  InFlightDiagnostic error() { return emitError(module.getLoc()); }
  RankedTensorType typeOf(unsigned argument) {
    return cast<RankedTensorType>(function.getArgument(argument).getType());
  }
  LogicalResult constrainArgument(unsigned argument,
                                  const ShardPattern &pattern,
                                  graph::ParameterOp parameter);
  FailureOr<bool> constrainOutputs(const ShardPattern &pattern,
                                   std::vector<std::string> &scopes);
  FailureOr<Found> layOut(const ShardPattern &pattern, RankedTensorType type,
                          ArrayRef<SmallVector<int64_t>> dimsOf,
                          ArrayRef<DimUse> uses, StringRef name, bool pads);
  DimUse follow(Value value, int64_t dim);
  LogicalResult checkDims(const ShardPattern &pattern, StringRef name,
                          int64_t rank);

  ModuleOp module;
  func::FuncOp function;
  shard::MeshAttr mesh;
  Builder builder;
  int64_t lowest = 0;
  llvm::SmallDenseSet<int32_t> used;
};

} // namespace

/// Dim `d` of a value, wherever the program takes it: through ops in which it
/// is one factor, until it is taken apart.
DimUse Strategy::follow(Value start, int64_t startDim) {
  DimUse use;
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
  SmallVector<std::pair<Value, int64_t>> pending = {{start, startDim}};
  while (!pending.empty()) {
    auto [value, dim] = pending.pop_back_val();
    if (!seen.insert({value, dim}).second)
      continue;
    for (OpOperand &slot : value.getUses()) {
      auto op = dyn_cast<graph::GraphOp>(slot.getOwner());
      if (!op)
        continue;
      graph::ShardingRule rule = op.getShardingRule();
      const auto &factors = rule.operands[slot.getOperandNumber()][dim];
      if (factors.size() != 1)
        continue;
      int factor = factors[0];
      if (rule.factors[factor].kind == graph::FactorKind::Replicated)
        use.isSliced = true;
      if (isa<graph::AttentionOp>(op) && dim == 1)
        use.isHeads = true;
      if (auto matmul = dyn_cast<graph::MatmulOp>(*op))
        use.isHeads |= llvm::is_contained(slot.getOperandNumber() == 0
                                              ? matmul.getLhsBatch()
                                              : matmul.getRhsBatch(),
                                          dim);
      for (auto [r, result] : llvm::enumerate(rule.results))
        for (auto [d, list] : llvm::enumerate(result))
          if (list.size() == 1 && list[0] == factor)
            pending.push_back({op->getResult(r), d});
    }
  }
  return use;
}

LogicalResult Strategy::checkDims(const ShardPattern &pattern, StringRef name,
                                  int64_t rank) {
  if (static_cast<int64_t>(pattern.dims.size()) == rank)
    return success();
  return error() << "--shard '" << pattern.text << "' has "
                 << pattern.dims.size() << " dims, but '" << name << "' has "
                 << rank << "; write one entry per dim (- for not split)";
}

/// `dimsOf`: per dim of the pattern, the dims of `type` that it is made of,
/// major to minor.
FailureOr<Strategy::Found>
Strategy::layOut(const ShardPattern &pattern, RankedTensorType type,
                 ArrayRef<SmallVector<int64_t>> dimsOf, ArrayRef<DimUse> uses,
                 StringRef name, bool pads) {
  SmallVector<DimAttr> dims(type.getRank(), DimAttr::get(mesh, {}));
  Found found;
  found.open.assign(type.getRank(), false);
  for (auto [d, list] : llvm::enumerate(dimsOf)) {
    std::string reason;
    auto axes = pattern.getAxes(d, mesh, reason);
    if (failed(axes))
      return error() << reason, failure();
    if (pattern.dims[d].open)
      for (int64_t dim : list)
        found.open[dim] = true;
    for (AxisRef ref : *axes)
      used.insert(ref.axis);
    int64_t blocks = shard::product(*axes);
    if (blocks == 1)
      continue;
    // The most major dim that is not sliced, heads before others.
    int64_t chosen = -1;
    for (bool heads : {true, false})
      for (int64_t dim : list)
        if (chosen < 0 && !uses[dim].isSliced && (!heads || uses[dim].isHeads))
          chosen = dim;
    if (chosen < 0)
      return error() << "--shard '" << pattern.text << "': dim " << d << " of '"
                     << name
                     << "' is taken apart by the model; it cannot be split over "
                     << mesh.toString(*axes),
             failure();
    int64_t size = type.getDimSize(chosen), padded = 0;
    if (size % blocks != 0) {
      padded = (size + blocks - 1) / blocks * blocks;
      if (!pads)
        return error() << "--shard '" << pattern.text << "': dim " << d
                       << " of '" << name << "' has size " << size
                       << ", which " << mesh.toString(*axes) << " (" << blocks
                       << ") does not divide; use a multiple of " << blocks,
               failure();
    }
    if (list.size() > 1 || padded) {
      auto remark = emitRemark(module.getLoc());
      remark << "'" << name << "': " << mesh.toString(*axes) << " splits ";
      if (list.size() > 1) {
        remark << "the factor of " << size << (uses[chosen].isHeads ? " heads" : "")
               << " of dim " << d;
      } else {
        remark << "dim " << d << " of size " << size;
      }
      if (padded)
        remark << ", padded to " << padded;
    }
    dims[chosen] = DimAttr::get(mesh, *axes, padded,
                                padded ? shard::Fill::Zero : shard::Fill::Undefined);
  }
  found.layout = LayoutAttr::get(mesh, dims);
  return found;
}

/// Per stored dim, the dims of the view that lie in it, major to minor.
static SmallVector<SmallVector<int64_t>>
dimsOfStored(ArrayRef<int64_t> stored, RankedTensorType type,
             ArrayRef<int64_t> strides) {
  SmallVector<int64_t> storedStrides = graph::getStrides(stored);
  SmallVector<SmallVector<int64_t>> result(stored.size());
  for (auto [d, list] : llvm::enumerate(result)) {
    for (int64_t i = 0; i < type.getRank(); ++i) {
      // A dim of size 1 has no place of its own: it goes with an equal stride.
      int64_t low = storedStrides[d], high = low * stored[d];
      if (strides[i] >= low && (strides[i] < high || (d == 0 && strides[i] == high)))
        list.push_back(i);
    }
    llvm::stable_sort(list, [&](int64_t a, int64_t b) {
      return strides[a] > strides[b];
    });
  }
  return result;
}

LogicalResult Strategy::constrainArgument(unsigned argument,
                                          const ShardPattern &pattern,
                                          graph::ParameterOp parameter) {
  RankedTensorType type = typeOf(argument);
  SmallVector<SmallVector<int64_t>> dimsOf;
  SmallVector<DimUse> uses(type.getRank());
  std::string name;
  if (parameter) {
    name = parameter.getSymName().str();
    auto stored = cast<RankedTensorType>(parameter.getType());
    if (failed(checkDims(pattern, name, stored.getRank())))
      return failure();
    if (auto view = function.getArgAttrOfType<DenseI64ArrayAttr>(argument,
                                                                 "graph.view"))
      dimsOf = dimsOfStored(stored.getShape(), type,
                            view.asArrayRef().drop_front());
    for (int64_t d = 0; d < type.getRank(); ++d)
      uses[d] = follow(function.getArgument(argument), d);
  } else {
    name = function.getArgAttrOfType<StringAttr>(argument, "graph.input").str();
    // Dim 0 is the microbatch: the user's dims follow.
    if (failed(checkDims(pattern, name, type.getRank() - 1)))
      return failure();
    for (int64_t d = 1; d < type.getRank(); ++d)
      dimsOf.push_back({d});
  }
  if (dimsOf.empty())
    for (int64_t d = 0; d < type.getRank(); ++d)
      dimsOf.push_back({d});
  auto found = layOut(pattern, type, dimsOf, uses, name, !!parameter);
  if (failed(found))
    return failure();
  function.setArgAttr(argument, "shard.layout", found->layout);
  function.setArgAttr(argument, "shard.open",
                      builder.getDenseBoolArrayAttr(found->open));
  function.setArgAttr(argument, "shard.priority",
                      builder.getI64IntegerAttr(pattern.priority));
  function.setArgAttr(argument, "shard.from",
                      builder.getStringAttr(pattern.text));
  return success();
}

/// Ops of the user's model (not of its backward) whose scope matches and whose
/// result leaves it.
FailureOr<bool> Strategy::constrainOutputs(const ShardPattern &pattern,
                                           std::vector<std::string> &scopes) {
  bool any = false;
  LogicalResult status = success();
  auto scopeOf = [](Operation *op) {
    auto scope = op->getAttrOfType<StringAttr>("graph.scope");
    return op->hasAttr("graph.origin") || !scope ? StringRef()
                                                 : scope.getValue();
  };
  function.walk([&](Operation *op) {
    StringRef scope = scopeOf(op);
    if (scope.empty() || op->getNumResults() == 0)
      return;
    // The module that the pattern means may be an ancestor of the op's.
    std::string matched;
    for (StringRef prefix = scope; !prefix.empty();
         prefix = prefix.rsplit('.').first) {
      if (!llvm::is_contained(scopes, prefix.str()))
        scopes.push_back(prefix.str());
      if (pattern.matches(prefix))
        matched = prefix.str();
      if (!prefix.contains('.'))
        break;
    }
    if (matched.empty())
      return;
    auto isInside = [&](Operation *user) {
      StringRef other = scopeOf(user);
      return other == matched || other.starts_with(matched + ".");
    };
    bool leaves = llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) {
      return !user->hasAttr("graph.origin") && !isInside(user);
    });
    if (!leaves)
      return;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (failed(checkDims(pattern, "out(" + matched + ")", type.getRank()))) {
      status = failure();
      return;
    }
    SmallVector<SmallVector<int64_t>> dimsOf;
    for (int64_t d = 0; d < type.getRank(); ++d)
      dimsOf.push_back({d});
    auto found = layOut(pattern, type, dimsOf,
                        SmallVector<DimUse>(type.getRank()), matched, false);
    if (failed(found)) {
      status = failure();
      return;
    }
    op->setAttr("shard.constraint",
                builder.getDictionaryAttr(
                    {builder.getNamedAttr("layout", found->layout),
                     builder.getNamedAttr(
                         "open", builder.getDenseBoolArrayAttr(found->open)),
                     builder.getNamedAttr("priority", builder.getI64IntegerAttr(
                                                          pattern.priority)),
                     builder.getNamedAttr("from",
                                          builder.getStringAttr(pattern.text))}));
    any = true;
  });
  if (failed(status))
    return failure();
  return any;
}

LogicalResult Strategy::add(ShardPattern pattern) {
  lowest = std::max(lowest, pattern.priority);
  std::vector<std::string> names;
  bool any = false;
  if (pattern.isOutput) {
    auto found = constrainOutputs(pattern, names);
    if (failed(found))
      return failure();
    any = *found;
  } else {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (function.getArgAttr(i, "graph.state_of"))
        continue;
      graph::ParameterOp parameter;
      SmallVector<std::string> known;
      if (auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(
              i, "graph.symbol")) {
        parameter = SymbolTable::lookupNearestSymbolFrom<graph::ParameterOp>(
            module, symbol);
        if (!parameter)
          continue;
        known.push_back(parameter.getSymName().str());
        if (ArrayAttr aliases = parameter.getAliasesAttr())
          for (auto alias : aliases.getAsRange<StringAttr>())
            known.push_back(alias.str());
      } else if (auto input = function.getArgAttrOfType<StringAttr>(
                     i, "graph.input")) {
        known.push_back(input.str());
      } else {
        continue;
      }
      names.insert(names.end(), known.begin(), known.end());
      if (llvm::none_of(known, [&](const std::string &name) {
            return pattern.matches(name);
          }))
        continue;
      any = true;
      if (failed(constrainArgument(i, pattern, parameter)))
        return failure();
    }
  }
  if (!any)
    return error() << "--shard '" << pattern.text << "' matches no "
                   << (pattern.isOutput ? "module" : "parameter or input")
                   << nearestNames(pattern.pattern, names);
  return success();
}

LogicalResult Strategy::addDataDefault() {
  int32_t axis = mesh.lookup("data");
  if (axis < 0 || mesh.getAxisSizes()[axis] == 1)
    return success();
  AxisRef ref = mesh.getAxis(axis);
  std::string names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto input = function.getArgAttrOfType<StringAttr>(i, "graph.input");
    RankedTensorType type = typeOf(i);
    if (!input || type.getRank() < 2 || function.getArgAttr(i, "shard.layout"))
      continue;
    int64_t batch = type.getDimSize(1);
    if (batch % ref.size != 0)
      return error() << "input '" << input.getValue() << "' has a batch of "
                     << batch << ", which the mesh axis data=" << ref.size
                     << (batch < ref.size ? " is larger than"
                                          : " does not divide")
                     << "; use a batch that is a multiple of " << ref.size
                     << " (--input '" << input.getValue() << "=..["
                     << (batch + ref.size - 1) / ref.size * ref.size << ",..]')";
    SmallVector<DimAttr> dims(type.getRank(), DimAttr::get(mesh, {}));
    dims[1] = DimAttr::get(mesh, ref);
    SmallVector<bool> open(type.getRank(), true);
    open[0] = open[1] = false;
    std::string text = "data splits the batch of " + input.str();
    function.setArgAttr(i, "shard.layout", LayoutAttr::get(mesh, dims));
    function.setArgAttr(i, "shard.open", builder.getDenseBoolArrayAttr(open));
    function.setArgAttr(i, "shard.priority",
                        builder.getI64IntegerAttr(lowest + 1));
    function.setArgAttr(i, "shard.from", builder.getStringAttr(text));
    names += (names.empty() ? "'" : ", '") + input.str() + "'";
    used.insert(axis);
  }
  if (!names.empty())
    emitRemark(module.getLoc())
        << "the axis data=" << ref.size << " splits the batch of " << names;
  return success();
}

LogicalResult Strategy::checkAxesAreUsed() {
  for (auto [i, size] : llvm::enumerate(mesh.getAxisSizes())) {
    if (size == 1 || used.contains(i))
      continue;
    StringRef name = mesh.getAxisNames()[i].getValue();
    return error() << "the mesh axis " << name << "=" << size
                   << " is used by nothing: all its ranks would do the same; "
                      "constrain a parameter with it, for instance --shard "
                      "'*.weight=[-,"
                   << name << "]', or leave it out of --mesh";
  }
  return success();
}

LogicalResult polyrank::sharding::applyStrategy(ModuleOp module,
                                                const StrategyOptions &options) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function)
    return emitError(module.getLoc()) << "there is no function @step";
  module->setAttr("shard.mesh", options.mesh);
  Strategy strategy(module, function, options);
  for (const std::string &text : options.shards) {
    std::string error;
    auto pattern = ShardPattern::parse(text, error);
    if (failed(pattern))
      return emitError(module.getLoc()) << error;
    if (failed(strategy.add(*pattern)))
      return failure();
  }
  return failure(failed(strategy.addDataDefault()) ||
                 failed(strategy.checkAxesAreUsed()));
}

namespace {
struct ApplyStrategy : sharding::impl::ApplyStrategyBase<ApplyStrategy> {
  using ApplyStrategyBase::ApplyStrategyBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto mesh = module->getAttrOfType<shard::MeshAttr>("shard.mesh");
    if (!mesh) {
      module.emitError("has no mesh (shard.mesh)");
      return signalPassFailure();
    }
    StrategyOptions options{mesh, {shards.begin(), shards.end()}};
    if (!file.empty()) {
      std::string error;
      auto lines = readShardFile(file, error);
      if (failed(lines)) {
        module.emitError() << error;
        return signalPassFailure();
      }
      options.shards.insert(options.shards.end(), lines->begin(), lines->end());
    }
    if (failed(applyStrategy(module, options)))
      signalPassFailure();
  }
};
} // namespace
