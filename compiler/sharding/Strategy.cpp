// Resolves the user's patterns and turns them into constraints.

#include "compiler/sharding/Strategy.h"

#include "compiler/sharding/Why.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/ParameterSymbols.h"
#include "dialects/graph/Provenance.h"
#include "dialects/graph/Symbols.h"
#include "dialects/pipeline/Pipeline.h"
#include "support/ModelDims.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

LogicalResult Strategy::checkDims(const ShardPattern &pattern, StringRef name,
                                  ArrayRef<int64_t> shape) {
  size_t given = pattern.dims.size();
  if (given == shape.size())
    return success();
  std::string sizes;
  for (int64_t size : shape)
    sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
  return error() << "--shard '" << pattern.text << "' has " << given
                 << (given == 1 ? " dim" : " dims") << ", but '" << name
                 << "' has " << shape.size() << " (" << sizes
                 << "); write one entry per dim (- for not split)";
}

bool Strategy::replaces(const ShardPattern &pattern, StringRef name,
                        sharding::ConstraintAttr given) {
  if (!given || given.getFrom() == pattern.text)
    return true;
  bool wins = pattern.priority <= given.getPriority();
  std::string other = given.getFrom().str();
  remark(name, wins ? "'" + pattern.text + "' replaces '" + other + "'"
                    : "'" + other + "' is kept, not '" + pattern.text + "'");
  return wins;
}

void Strategy::remark(StringRef name, const std::string &text) {
  auto &[layers, kept] = remarks[LayerNames::getKey(name) + "|" + text];
  layers.add(name);
  kept = text;
}

void Strategy::emitRemarks() {
  for (auto &[key, entry] : remarks)
    emitRemark(module.getLoc())
        << "'" << entry.first.toString() << "': " << entry.second;
}

FailureOr<SmallVector<AxisRef>> Strategy::axesOf(const ShardPattern &pattern,
                                                 size_t d) {
  auto axes = pattern.getAxes(d, mesh);
  if (!axes)
    return error() << axes.error().message, failure();
  for (AxisRef ref : *axes)
    if (StringRef axis = mesh.getAxisNames()[ref.axis].getValue();
        axis == pipeline::getAxis(module))
      return error() << "--shard '" << pattern.text
                     << "': the stages of the pipeline lie along '" << axis
                     << "', which splits no dim; use another axis, or --stage "
                        "to say what is on which stage",
             failure();
  return SmallVector<AxisRef>(*axes);
}

/// The most major dim of `list` that is not sliced, heads before others; -1 if
/// there is none.
static int64_t chooseDim(ArrayRef<int64_t> list, ArrayRef<DimUse> uses) {
  for (bool heads : {true, false})
    for (int64_t dim : list)
      if (!uses[dim].isSliced && (!heads || uses[dim].isHeads))
        return dim;
  return -1;
}

LogicalResult Strategy::layOutDim(const ShardPattern &pattern, size_t d,
                                  SmallVector<AxisRef> axes,
                                  ArrayRef<int64_t> list, const Laid &laid,
                                  MutableArrayRef<DimAttr> dims) {
  auto [type, uses, name, kind] = laid;
  std::string axesText = describe(mesh, axes);
  int64_t blocks = sharding::product(axes);
  if (blocks == 1)
    return success();
  auto has = [&](bool DimUse::*is) {
    return llvm::any_of(list, [&](int64_t dim) { return laid.uses[dim].*is; });
  };
  // A single head serves all heads of queries, so every rank holds it.
  if (kind == Kind::Parameter &&
      ((has(&DimUse::isWidth) && !has(&DimUse::isHeads)) ||
       has(&DimUse::isOneBlock))) {
    remark(name, "dim " + std::to_string(d) + " is one head, which serves " +
                     "those of all " + std::to_string(blocks) + " blocks of " +
                     axesText + ": every rank holds it");
    return success();
  }
  int64_t chosen = chooseDim(list, uses);
  if (chosen < 0)
    return error() << "--shard '" << pattern.text << "': dim " << d << " of '"
                   << name
                   << "' is cut into parts by the model; it cannot be split "
                      "over "
                   << axesText;
  int64_t size = type.getDimSize(chosen), padded = 0;
  StringRef unit = uses[chosen].isHeads && list.size() > 1 ? " heads" : "";
  bool repeated = false;
  if (size < blocks && kind == Kind::Parameter && uses[chosen].isGroups)
    if (auto part = majorPart(axes, size)) {
      remark(name, describe(mesh, *part) + " splits the " +
                       std::to_string(size) + " heads of dim " +
                       std::to_string(d) + ", fewer than the " +
                       std::to_string(blocks) + " blocks of " + axesText +
                       ": groups of " + std::to_string(blocks / size) +
                       " ranks hold the same heads");
      axes.assign(part->begin(), part->end());
      blocks = size;
      repeated = true;
    }
  if (size < blocks)
    return error() << "--shard '" << pattern.text << "': dim " << d << " of '"
                   << name << "' has " << size
                   << (unit.empty() ? " elements" : unit) << ", fewer than the "
                   << blocks << " blocks of " << axesText
                   << "; split it over fewer ranks";
  if (size % blocks != 0) {
    padded = (size + blocks - 1) / blocks * blocks;
    if (kind == Kind::Input && d == 0)
      return error() << "--shard '" << pattern.text << "': dim " << d << " of '"
                     << name << "' has size " << size << ", which the "
                     << blocks << " blocks of " << axesText
                     << " do not divide; batches are not padded: use a "
                        "multiple of "
                     << blocks << " or other sizes of the mesh";
  }
  if (!repeated && (list.size() > 1 || padded)) {
    std::string text = axesText + " splits ";
    if (list.size() > 1)
      text += "the " + std::to_string(size) +
              (unit.empty() ? " blocks" : unit.str()) + " of dim " +
              std::to_string(d);
    else
      text += "dim " + std::to_string(d) + " of size " + std::to_string(size);
    if (padded)
      text += kind == Kind::Parameter ? ", padded to " + std::to_string(padded)
                                      : ", padded as the ops on it need";
    remark(name, text);
  }
  dims[chosen] = DimAttr::get(mesh, axes, padded,
                              padded && kind == Kind::Parameter
                                  ? sharding::Fill::Zero
                                  : sharding::Fill::Undefined);
  return success();
}

FailureOr<Strategy::Found>
Strategy::layOut(const ShardPattern &pattern, RankedTensorType type,
                 ArrayRef<SmallVector<int64_t>> dimsOf, ArrayRef<DimUse> uses,
                 StringRef name, Kind kind) {
  SmallVector<DimAttr> dims(type.getRank(), DimAttr::get(mesh, {}));
  Found found;
  found.open.assign(type.getRank(), false);
  for (auto [d, list] : llvm::enumerate(dimsOf)) {
    FailureOr<SmallVector<AxisRef>> axes = axesOf(pattern, d);
    if (failed(axes))
      return failure();
    if (pattern.dims[d].open)
      for (int64_t dim : list)
        found.open[dim] = true;
    if (failed(
            layOutDim(pattern, d, *axes, list, {type, uses, name, kind}, dims)))
      return failure();
  }
  found.layout = LayoutAttr::get(mesh, dims);
  return found;
}

void Strategy::markOneBlocks(unsigned argument, graph::ParameterOp parameter,
                             ArrayRef<SmallVector<int64_t>> dimsOf,
                             MutableArrayRef<DimUse> uses) {
  graph::Boundary boundary(function);
  ArrayRef<int64_t> stored =
      cast<RankedTensorType>(parameter.getType()).getShape();
  auto isPart = [&](unsigned other) {
    auto role = boundary.getArgument<graph::ParameterAttr>(other);
    return other != argument && role && role.getView() &&
           role.getSymbol().getValue() == parameter.getSymName();
  };
  for (unsigned other = 0; other < function.getNumArguments(); ++other) {
    if (!isPart(other))
      continue;
    SmallVector<SmallVector<int64_t>> others =
        dimsOfStored(stored, typeOf(other),
                     boundary.getView(other).asArrayRef().drop_front());
    for (auto [mine, theirs] : llvm::zip_equal(dimsOf, others)) {
      int64_t size = 1, block = 1;
      for (int64_t dim : mine)
        size *= typeOf(argument).getDimSize(dim);
      bool isBlock = false;
      for (int64_t dim : llvm::reverse(theirs)) {
        int64_t count = typeOf(other).getDimSize(dim);
        isBlock |= block == size && block > 1 && count > 1 &&
                   !followDim(function.getArgument(other), dim).isSliced;
        block *= count;
      }
      if (isBlock)
        for (int64_t dim : mine)
          uses[dim].isOneBlock = true;
    }
  }
}

LogicalResult Strategy::constrainArgument(unsigned argument,
                                          const ShardPattern &pattern,
                                          graph::ParameterOp parameter) {
  RankedTensorType type = typeOf(argument);
  SmallVector<SmallVector<int64_t>> dimsOf;
  SmallVector<DimUse> uses(type.getRank());
  std::string name;
  if (parameter) {
    name = graph::nameOf(parameter.getSymName()).str();
    auto stored = cast<RankedTensorType>(parameter.getType());
    if (failed(checkDims(pattern, name, stored.getShape())))
      return failure();
    if (DenseI64ArrayAttr view = graph::Boundary(function).getView(argument))
      dimsOf =
          dimsOfStored(stored.getShape(), type, view.asArrayRef().drop_front());
    for (int64_t d = 0; d < type.getRank(); ++d)
      uses[d] = followDim(function.getArgument(argument), d);
    if (!dimsOf.empty())
      markOneBlocks(argument, parameter, dimsOf, uses);
  } else {
    name = graph::Boundary(function).getName(argument);
    auto input =
        graph::Boundary(function).getArgument<graph::InputAttr>(argument);
    // Dim 0 is the microbatch; the pattern has the others in the model's order.
    SmallVector<int64_t> shape;
    if (type.getRank() > 1)
      for (int64_t dim : modelOrder(type.getRank() - 1, input.getBatchDim())) {
        dimsOf.push_back({dim + 1});
        shape.push_back(type.getDimSize(dim + 1));
      }
    if (failed(checkDims(pattern, name, shape)))
      return failure();
  }
  if (dimsOf.empty())
    for (int64_t d = 0; d < type.getRank(); ++d)
      dimsOf.push_back({d});
  auto found = layOut(pattern, type, dimsOf, uses, name,
                      parameter ? Kind::Parameter : Kind::Input);
  if (failed(found))
    return failure();
  if (replaces(pattern, name, sharding::getConstraint(function, argument)))
    sharding::setConstraint(function, argument,
                            toConstraint(found->layout, found->open,
                                         pattern.priority, pattern.text));
  return success();
}

/// Constrains ops of the forward whose module matches and whose result is used
/// outside the module.
FailureOr<bool> Strategy::constrainOutputs(const ShardPattern &pattern,
                                           std::vector<std::string> &scopes) {
  bool any = false;
  LogicalResult status = success();
  auto isForward = [&](Operation *op) {
    return phases.getPhase(op) == graph::Phase::Forward;
  };
  auto scopeOf = [&](Operation *op) {
    return isForward(op) ? graph::getScope(op) : StringRef();
  };
  function.walk([&](Operation *op) {
    StringRef scope = scopeOf(op);
    if (scope.empty() || op->getNumResults() == 0 || graph::isInScan(op))
      return WalkResult::advance();
    // The pattern may name an ancestor of the op's module.
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
      return WalkResult::advance();
    auto isInside = [&](Operation *user) {
      StringRef other = scopeOf(user);
      return other == matched || other.starts_with(matched + ".");
    };
    bool leaves =
        llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) {
          return isForward(user) && !isInside(user);
        });
    if (!leaves)
      return WalkResult::advance();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (failed(checkDims(pattern, "out(" + matched + ")", type.getShape()))) {
      status = failure();
      return WalkResult::interrupt();
    }
    SmallVector<SmallVector<int64_t>> dimsOf;
    for (int64_t d = 0; d < type.getRank(); ++d)
      dimsOf.push_back({d});
    auto found =
        layOut(pattern, type, dimsOf, SmallVector<DimUse>(type.getRank()),
               matched, Kind::Output);
    if (failed(found)) {
      status = failure();
      return WalkResult::interrupt();
    }
    any = true;
    if (replaces(pattern, matched, sharding::getConstraint(op)))
      sharding::setConstraint(op, toConstraint(found->layout, found->open,
                                               pattern.priority, pattern.text));
    return WalkResult::advance();
  });
  if (failed(status))
    return failure();
  return any;
}

LogicalResult Strategy::add(StringRef text) {
  Result<ShardPattern> pattern = ShardPattern::parse(text);
  if (!pattern)
    return error() << pattern.error().message;
  return add(*pattern);
}

LogicalResult Strategy::add(const ShardPattern &pattern) {
  lowest = std::max(lowest, pattern.priority);
  std::vector<std::string> names;
  bool any = false;
  if (pattern.isOutput) {
    auto found = constrainOutputs(pattern, names);
    if (failed(found))
      return failure();
    any = *found;
  } else {
    graph::Boundary boundary(function);
    graph::Symbols symbols(module);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      graph::ParameterOp parameter;
      SmallVector<std::string> known;
      if (auto role = boundary.getArgument<graph::ParameterAttr>(i)) {
        parameter = symbols.lookup<graph::ParameterOp>(role.getSymbol());
        if (!parameter)
          continue;
        known.push_back(graph::nameOf(parameter.getSymName()).str());
        if (ArrayAttr aliases = parameter.getAliasesAttr())
          for (auto alias : aliases.getAsRange<StringAttr>())
            known.push_back(alias.str());
      } else if (auto input = boundary.getArgument<graph::InputAttr>(i)) {
        known.push_back(input.getName().str());
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
