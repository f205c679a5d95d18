// Sharding rules: construction, text, projection of axes onto factors.

#include "dialects/graph/ShardingRule.h"

#include "dialects/graph/Graph.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::ReductionKind;

StringRef polyrank::graph::stringify(FactorKind kind) {
  switch (kind) {
  case FactorKind::Parallel:
    return "parallel";
  case FactorKind::Reduction:
    return "reduction";
  case FactorKind::Indexed:
    return "indexed";
  case FactorKind::Halo:
    return "halo";
  case FactorKind::Composite:
    return "composite";
  case FactorKind::Replicated:
    return "replicated";
  }
  llvm_unreachable("covered switch");
}

int ShardingRule::addFactor(int64_t size, FactorKind kind,
                            ReductionKind reduction) {
  factors.push_back({size, kind, reduction});
  return factors.size() - 1;
}

void ShardingRule::addHalo(int64_t operandDim, int64_t operandSize,
                           Border operand, int64_t resultDim,
                           int64_t resultSize, Border result) {
  DimFactors &from = operands[0][operandDim], &to = results[0][resultDim];
  if (operandSize > 1 && resultSize > 1) {
    int64_t extent = std::max(llvm::divideCeil(operandSize, operand.scale),
                              llvm::divideCeil(resultSize, result.scale));
    from = to = {addFactor(extent, FactorKind::Halo)};
    borders.push_back({{false, 0, operandDim}, operand});
    borders.push_back({{true, 0, resultDim}, result});
    return;
  }
  // A tensor of one element is on every device, and with it everything that it
  // is computed from.
  if (operandSize != 1)
    from = {addFactor(operandSize, FactorKind::Replicated)};
  if (resultSize != 1)
    to = {addFactor(resultSize, FactorKind::Replicated)};
}

Border ShardingRule::getBorder(bool isResult, unsigned tensor,
                               int64_t dim) const {
  for (const auto &[key, border] : borders)
    if (key == std::tuple(isResult, tensor, dim))
      return border;
  return {};
}

DimAttr ShardingRule::layDim(bool isResult, unsigned tensor, int64_t dim,
                             int64_t size, sharding::MeshAttr mesh,
                             ArrayRef<AxisRef> axes, int64_t extent,
                             sharding::Fill fill) const {
  if (axes.empty())
    return DimAttr::get(mesh, {});
  Border border = getBorder(isResult, tensor, dim);
  extent *= border.scale;
  bool isPadded = extent != size;
  return DimAttr::get(mesh, axes, isPadded ? extent : 0,
                      isPadded ? fill : sharding::Fill::Undefined, border.low,
                      border.high, /*spills=*/isResult);
}

static bool has(const TensorFactors &tensor, int factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

bool ShardingRule::operandHas(unsigned operand, int factor) const {
  return has(operands[operand], factor);
}

bool ShardingRule::resultHas(unsigned result, int factor) const {
  return has(results[result], factor);
}

bool ShardingRule::isResultOnly(int factor) const {
  return llvm::none_of(operands, [&](const TensorFactors &operand) {
    return has(operand, factor);
  });
}

/// i, j, .. z, then i1, j1, ..
static std::string factorName(int factor) {
  constexpr int letters = 18; // i to z
  std::string name(1, static_cast<char>('i' + factor % letters));
  return factor < letters ? name : name + std::to_string(factor / letters);
}

std::string ShardingRule::toString() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto printTensors = [&](ArrayRef<TensorFactors> tensors, bool isResult) {
    auto printTensor = [&](unsigned number) {
      out << "[";
      auto dims = llvm::enumerate(tensors[number]);
      llvm::interleaveComma(dims, out, [&](auto entry) {
        auto [d, dim] = entry;
        Border border = getBorder(isResult, number, d);
        if (dim.empty())
          out << "1";
        if (border.scale != 1)
          out << border.scale;
        for (int factor : dim)
          out << factorName(factor);
        if (border.low || border.high)
          out << "+" << border.low << ":" << border.high;
      });
      out << "]";
    };
    llvm::interleaveComma(llvm::seq<unsigned>(0, tensors.size()), out,
                          printTensor);
  };
  out << "(";
  printTensors(operands, false);
  out << ")->(";
  printTensors(results, true);
  out << ") {";
  llvm::interleaveComma(llvm::seq<int>(factors.size()), out, [&](int factor) {
    out << factorName(factor) << "=" << factors[factor].size;
  });
  out << "}";
  for (FactorKind kind :
       {FactorKind::Reduction, FactorKind::Indexed, FactorKind::Halo,
        FactorKind::Composite, FactorKind::Replicated}) {
    SmallVector<std::string> names;
    for (auto [i, factor] : llvm::enumerate(factors))
      if (factor.kind == kind)
        names.push_back(
            factorName(i) +
            (kind == FactorKind::Reduction &&
                     factor.reduction != ReductionKind::Sum
                 ? ":" + stringifyReductionKind(factor.reduction).str()
                 : ""));
    if (!names.empty())
      out << " " << stringify(kind) << "={" << llvm::join(names, ", ") << "}";
  }
  auto printPasses = [&](StringRef title, ArrayRef<PartialPass> passes) {
    if (llvm::all_of(
            passes, [](PartialPass pass) { return pass == PartialPass::None; }))
      return;
    out << " " << title << "=(";
    llvm::interleaveComma(passes, out, [&](PartialPass pass) {
      out << (pass == PartialPass::None       ? "none"
              : pass == PartialPass::Alone    ? "alone"
              : pass == PartialPass::Together ? "together"
                                              : "any");
    });
    out << ")";
  };
  printPasses("sum", passes[0]);
  printPasses("max", passes[1]);
  printPasses("min", passes[2]);
  return text;
}

ShardingRule polyrank::graph::emptyRule(Operation *op) {
  ShardingRule rule;
  for (Value operand : op->getOperands())
    rule.operands.emplace_back(
        cast<RankedTensorType>(operand.getType()).getRank());
  for (Value result : op->getResults())
    rule.results.emplace_back(
        cast<RankedTensorType>(result.getType()).getRank());
  for (auto &kind : rule.passes)
    kind.assign(op->getNumOperands(), PartialPass::None);
  return rule;
}

ShardingRule polyrank::graph::elementwiseRule(Operation *op) {
  ShardingRule rule = emptyRule(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    if (size == 1)
      continue;
    int factor = rule.addFactor(size);
    for (TensorFactors &operand : rule.operands)
      operand[dim] = {factor};
    for (TensorFactors &result : rule.results)
      result[dim] = {factor};
  }
  return rule;
}

static PartialPass parsePass(char letter) {
  switch (letter) {
  case 'a':
    return PartialPass::Alone;
  case 't':
    return PartialPass::Together;
  case 'y':
    return PartialPass::Any;
  default:
    return PartialPass::None;
  }
}

ShardingRule polyrank::graph::elementwiseRule(Operation *op, StringRef sum,
                                              StringRef max, StringRef min) {
  ShardingRule rule = elementwiseRule(op);
  auto typeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  Type element = typeOf(op->getResult(0));
  // Integers wrap around: the identity of an extremum plus another number is no
  // longer the smallest or the largest integer. Division truncates, so it is
  // not linear.
  if (isa<IntegerType>(element) && isa<AddOp, SubOp>(op))
    max = min = "nn";
  if (isa<IntegerType>(element) && isa<DivOp>(op))
    sum = max = min = "nn";
  // x != 0 is not monotone.
  if (element.isInteger(1) && isa<ConvertOp>(op) &&
      !typeOf(op->getOperand(0)).isInteger(1))
    sum = max = min = "n";
  // A conversion to fewer bits wraps around: an extremum's identity becomes any
  // number.
  if (isa<ConvertOp>(op) && isa<IntegerType>(element) &&
      isa<IntegerType>(typeOf(op->getOperand(0))) &&
      element.getIntOrFloatBitWidth() <
          typeOf(op->getOperand(0)).getIntOrFloatBitWidth())
    max = min = "n";
  if (auto convert = dyn_cast<ConvertOp>(op); convert && convert.getParts())
    sum = "t";
  const StringRef kinds[] = {sum, max, min};
  for (auto [kind, letters] : llvm::enumerate(kinds))
    for (auto [i, letter] : llvm::enumerate(letters))
      rule.passes[kind][i] = parsePass(letter);
  return rule;
}

std::optional<SmallVector<SmallVector<AxisRef>>>
polyrank::graph::projectAxes(DimAttr dim, ArrayRef<int64_t> factorSizes,
                             std::string *reason) {
  auto fail = [&](StringRef text) {
    if (reason)
      *reason = text.str();
    return std::nullopt;
  };
  SmallVector<SmallVector<AxisRef>> result(factorSizes.size());
  if (factorSizes.empty()) {
    if (!dim.isWhole())
      return fail("a dim of size 1 cannot be split");
    return result;
  }
  if (factorSizes.size() == 1) {
    result[0] = SmallVector<AxisRef>(dim.getAxes());
    return result;
  }
  if (dim.getPadded())
    return fail("a padded dim passes only as one whole factor");
  size_t factor = 0;
  int64_t rest = factorSizes[0];
  SmallVector<AxisRef> queue(llvm::reverse(dim.getAxes()));
  while (!queue.empty()) {
    AxisRef ref = queue.pop_back_val();
    while (rest == 1) {
      if (++factor == factorSizes.size())
        return fail("it is split into more blocks than it has elements");
      rest = factorSizes[factor];
    }
    if (rest % ref.size == 0) {
      result[factor].push_back(ref);
      rest /= ref.size;
    } else if (ref.size % rest == 0) {
      result[factor].push_back({ref.axis, ref.pre, rest});
      queue.push_back({ref.axis, ref.pre * rest, ref.size / rest});
      rest = 1;
    } else {
      return fail("its blocks do not follow the dims it is made of");
    }
  }
  return result;
}

SmallVector<LayoutAttr>
polyrank::graph::inferResultLayouts(Operation *op,
                                    ArrayRef<LayoutAttr> operands) {
  unsigned numResults = op->getNumResults();
  auto graphOp = dyn_cast<GraphOp>(op);
  const LayoutAttr *some =
      llvm::find_if(operands, [](LayoutAttr layout) { return !!layout; });
  if (!graphOp || some == operands.end())
    return SmallVector<LayoutAttr>(numResults);
  sharding::MeshAttr mesh = some->getMesh();
  ShardingRule rule = graphOp.getShardingRule();

  size_t numFactors = rule.factors.size();
  SmallVector<SmallVector<AxisRef>> axes(numFactors);
  SmallVector<int64_t> padded(numFactors, 0), extents(numFactors, 0);
  SmallVector<AxisRef> partial;
  auto sizeOf = [](Value value, int64_t d) {
    return cast<RankedTensorType>(value.getType()).getDimSize(d);
  };
  auto isHalo = [&](const DimFactors &dim) {
    return dim.size() == 1 && rule.factors[dim[0]].kind == FactorKind::Halo &&
           !axes[dim[0]].empty();
  };
  ReductionKind kind = ReductionKind::Sum;
  SmallVector<sharding::Place> places;
  for (auto [i, layout] : llvm::enumerate(operands)) {
    if (!layout)
      continue;
    for (auto [d, dimFactors] : llvm::enumerate(rule.operands[i])) {
      DimAttr dim = layout.getDim(d);
      SmallVector<int64_t> sizes;
      for (int factor : dimFactors)
        sizes.push_back(rule.factors[factor].size);
      auto projected = projectAxes(dim, sizes);
      if (!projected)
        return SmallVector<LayoutAttr>(numResults);
      for (auto [factor, list] : llvm::zip_equal(dimFactors, *projected)) {
        if (axes[factor].empty())
          axes[factor] = list;
        padded[factor] = std::max(padded[factor], dim.getPadded());
      }
      if (isHalo(dimFactors))
        extents[dimFactors[0]] =
            llvm::divideCeil(dim.getExtent(sizeOf(op->getOperand(i), d)),
                             rule.getBorder(false, i, d).scale);
    }
    for (AxisRef ref : layout.getPartialAxes()) {
      kind = layout.getPartialKind();
      if (!sharding::overlap(partial, ref))
        partial.push_back(ref);
    }
    for (sharding::Place place : layout.getPlaces())
      if (!llvm::is_contained(places, place))
        places.push_back(place);
  }

  SmallVector<LayoutAttr> layouts;
  for (unsigned r = 0; r < numResults; ++r) {
    SmallVector<DimAttr> dims;
    for (auto [d, dimFactors] : llvm::enumerate(rule.results[r])) {
      if (isHalo(dimFactors)) {
        int f = dimFactors[0];
        dims.push_back(rule.layDim(true, r, d, sizeOf(op->getResult(r), d),
                                   mesh, axes[f], extents[f]));
        continue;
      }
      SmallVector<AxisRef> dimAxes;
      bool open = true;
      for (int factor : dimFactors) {
        // A more minor factor may have axes only if all more major ones are
        // completely split.
        if (!open && !axes[factor].empty())
          return SmallVector<LayoutAttr>(numResults);
        llvm::append_range(dimAxes, axes[factor]);
        open = open &&
               sharding::product(axes[factor]) == rule.factors[factor].size;
      }
      dims.push_back(DimAttr::get(
          mesh, dimAxes, dimFactors.size() == 1 ? padded[dimFactors[0]] : 0));
    }
    SmallVector<AxisRef> resultPartial = partial;
    ReductionKind resultKind = kind;
    for (auto [factor, description] : llvm::enumerate(rule.factors))
      if (!axes[factor].empty() && !rule.resultHas(r, factor) &&
          description.kind != FactorKind::Parallel) {
        llvm::append_range(resultPartial, axes[factor]);
        resultKind = description.reduction;
      }
    layouts.push_back(
        LayoutAttr::get(mesh, dims, resultKind, resultPartial, places));
  }
  return layouts;
}
