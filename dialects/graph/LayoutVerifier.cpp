// Verifies the layouts of an op's operands and results by its sharding rule.

#include "dialects/graph/LayoutVerifier.h"

#include <numeric>

#include "dialects/graph/Graph.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::ReductionKind;

namespace {

/// One operand or result of the op, with its layout split into sub-axes.
struct LaidTensor {
  std::string name; // "operand 1" or "result 0"
  bool isResult;
  unsigned number;
  LayoutAttr layout;
  const TensorFactors *factors;
  ArrayRef<int64_t> shape;
  /// For each factor that the tensor has: the sub-axes that split it, major to
  /// minor.
  llvm::MapVector<int, SmallVector<AxisRef>> split;
  llvm::MapVector<int, DimAttr> dims;
  SmallVector<AxisRef> partial;
};

class Verifier {
public:
  Verifier(Operation *op, const ShardingRule &rule) : op(op), rule(rule) {}

  LogicalResult run() {
    return failure(failed(collect()) || failed(project()) ||
                   failed(checkFactors()) || failed(checkAxes()) ||
                   failed(checkPartial()) || failed(checkPadding()) ||
                   failed(checkPlaces()));
  }

private:
  LogicalResult collect();
  LogicalResult project();
  LogicalResult checkFactors();
  LogicalResult checkAxes();
  LogicalResult checkPartial();
  LogicalResult checkPadding();
  LogicalResult checkPlaces();

  LogicalResult checkBorders(const LaidTensor &tensor, int64_t d, bool isSplit);
  Border borderOf(const LaidTensor &tensor, int factor) {
    return rule.getBorder(tensor.isResult, tensor.number,
                          dimOf(tensor, factor));
  }
  static int64_t dimExtent(const LaidTensor &tensor, int64_t d) {
    return tensor.layout.getDim(d).getExtent(tensor.shape[d]);
  }
  /// The extent of the factor's dim divided by its scale, as a fraction in
  /// lowest terms; for a compound dim, the extent of the factor, which is not
  /// padded.
  std::pair<int64_t, int64_t> extentOf(const LaidTensor &tensor, int factor) {
    int64_t d = dimOf(tensor, factor), scale = borderOf(tensor, factor).scale;
    int64_t extent = (*tensor.factors)[d].size() > 1 ? rule.factors[factor].size
                                                     : dimExtent(tensor, d);
    // An unsplit halo factor has no blocks, so extents need not match.
    if (rule.factors[factor].kind == FactorKind::Halo &&
        tensor.layout.getDim(d).getAxes().empty())
      return {0, 1};
    int64_t common = std::gcd(extent, scale);
    return {extent / common, scale / common};
  }

  /// Emits the error that `what` breaks rule L`rule` (Graph.td).
  InFlightDiagnostic error(int rule, StringRef what) {
    return op->emitOpError("[L") << rule << "] " << what;
  }
  std::string name(AxisRef ref) { return mesh.toString(ref); }
  std::string names(ArrayRef<AxisRef> refs) { return mesh.toString(refs); }
  /// Position of the dim of `tensor` that has `factor`.
  int64_t dimOf(const LaidTensor &tensor, int factor) {
    for (auto [i, dim] : llvm::enumerate(*tensor.factors))
      if (llvm::is_contained(dim, factor))
        return i;
    return -1;
  }

  Operation *op;
  const ShardingRule &rule;
  sharding::MeshAttr mesh;
  SmallVector<LaidTensor> tensors;
  /// For each sub-axis, the factor that it splits somewhere.
  llvm::MapVector<std::tuple<int32_t, int64_t, int64_t>, int> owner;
};

} // namespace

static std::tuple<int32_t, int64_t, int64_t> key(AxisRef ref) {
  return {ref.axis, ref.pre, ref.size};
}

LogicalResult Verifier::collect() {
  auto add = [&](StringRef kind, bool isResult, unsigned i, Value value,
                 const TensorFactors &factors) {
    tensors.push_back({(kind + " " + Twine(i)).str(),
                       isResult,
                       i,
                       sharding::getLayout(value),
                       &factors,
                       cast<RankedTensorType>(value.getType()).getShape(),
                       {},
                       {},
                       {}});
  };
  for (auto [i, value] : llvm::enumerate(op->getOperands()))
    add("operand", false, i, value, rule.operands[i]);
  for (auto [i, value] : llvm::enumerate(op->getResults()))
    add("result", true, i, value, rule.results[i]);
  const LaidTensor *with = llvm::find_if(
      tensors, [](const LaidTensor &tensor) { return !!tensor.layout; });
  mesh = with->layout.getMesh();
  for (const LaidTensor &tensor : tensors) {
    if (!tensor.layout)
      return error(1, tensor.name)
             << " has no layout but " << with->name
             << " has; after partitioning every tensor needs one";
    if (tensor.layout.getMesh() != mesh)
      return error(1, tensor.name)
             << " is laid out over another mesh than " << with->name;
    for (auto [d, dim] : llvm::enumerate(tensor.layout.getDims())) {
      const DimFactors &factors = (*tensor.factors)[d];
      bool mayHave = factors.size() == 1 &&
                     rule.factors[factors[0]].kind == FactorKind::Halo;
      if (dim.hasHalo() && !mayHave)
        return error(12, tensor.name)
               << (dim.getSpills() ? " holds sums for its neighbours on dim "
                                   : " has a halo on dim ")
               << d << ", which this op does not "
               << (tensor.isResult   ? "give"
                   : dim.getSpills() ? "read (sharding.halo_add)"
                                     : "read");
    }
  }
  return success();
}

LogicalResult Verifier::project() {
  SmallVector<AxisRef> used;
  for (LaidTensor &tensor : tensors) {
    for (auto [d, dimFactors] : llvm::enumerate(*tensor.factors)) {
      SmallVector<int64_t> sizes;
      for (int factor : dimFactors)
        sizes.push_back(rule.factors[factor].size);
      std::string reason;
      auto projected = projectAxes(tensor.layout.getDim(d), sizes, &reason);
      if (!projected)
        return error(3, tensor.name)
               << " dim " << d << " is split over "
               << names(tensor.layout.getDim(d).getAxes()) << ", but " << reason
               << "; gather it first, or split it by its most major part";
      for (auto [factor, axes] : llvm::zip_equal(dimFactors, *projected)) {
        tensor.split[factor] = axes;
        tensor.dims[factor] = tensor.layout.getDim(d);
        llvm::append_range(used, axes);
      }
    }
    llvm::append_range(used, tensor.layout.getPartialAxes());
  }
  for (LaidTensor &tensor : tensors) {
    auto cut = [&](SmallVector<AxisRef> &axes) -> LogicalResult {
      auto pieces = sharding::subAxes(axes, used);
      if (!pieces)
        return error(2, tensor.name)
               << " uses " << names(axes)
               << ", which another operand or result cuts at a coordinate that "
                  "does not divide it";
      axes = *pieces;
      return success();
    };
    for (auto &[factor, axes] : tensor.split)
      if (failed(cut(axes)))
        return failure();
    tensor.partial = SmallVector<AxisRef>(tensor.layout.getPartialAxes());
    if (failed(cut(tensor.partial)))
      return failure();
  }
  return success();
}

LogicalResult Verifier::checkFactors() {
  for (auto [index, factor] : llvm::enumerate(rule.factors)) {
    const LaidTensor *first = nullptr;
    for (const LaidTensor &tensor : tensors) {
      auto it = tensor.split.find(index);
      if (it == tensor.split.end())
        continue;
      int64_t dim = dimOf(tensor, index);
      bool closed = factor.kind == FactorKind::Composite ||
                    factor.kind == FactorKind::Replicated ||
                    (factor.kind == FactorKind::Halo && it->second.empty());
      if (closed &&
          (!it->second.empty() || tensor.dims.lookup(index).getPadded()))
        return error(6, tensor.name)
               << " dim " << dim << " is laid out as " << names(it->second)
               << (tensor.dims.lookup(index).getPadded() ? " with padding" : "")
               << ", but this dim is " << stringify(factor.kind)
               << (factor.kind == FactorKind::Composite
                       ? "; decompose the op (decompose-composites) or gather "
                         "the dim"
                   : factor.kind == FactorKind::Halo
                       ? "; remove the padding (sharding.repad), or split it"
                       : "; gather it first");
      if (factor.kind == FactorKind::Halo &&
          failed(checkBorders(tensor, dim, !it->second.empty())))
        return failure();
      if (!first) {
        first = &tensor;
        continue;
      }
      const auto &axes = first->split.find(index)->second;
      if (axes != it->second)
        return error(4, tensor.name)
               << " dim " << dim << " is split over " << names(it->second)
               << " where " << first->name << " dim " << dimOf(*first, index)
               << " is split over " << names(axes) << "; reshard one of them";
    }
  }
  return success();
}

LogicalResult Verifier::checkBorders(const LaidTensor &tensor, int64_t d,
                                     bool isSplit) {
  DimAttr dim = tensor.layout.getDim(d);
  Border border = rule.getBorder(tensor.isResult, tensor.number, d);
  if (!isSplit)
    border = {};
  bool needs = border.low || border.high;
  if (dim.getHaloLow() == border.low && dim.getHaloHigh() == border.high &&
      (!needs || dim.getSpills() == tensor.isResult))
    return success();
  auto wrong = error(12, tensor.name) << " dim " << d << " has ";
  if (dim.hasHalo())
    wrong << "'" << (dim.getSpills() ? "spill " : "halo ") << dim.getHaloLow()
          << ":" << dim.getHaloHigh() << "'";
  else
    wrong << "no borders";
  if (!needs)
    return wrong << ", but this op needs none here";
  return wrong << " where the op "
               << (tensor.isResult ? "gives 'spill " : "reads 'halo ")
               << border.low << ":" << border.high
               << (tensor.isResult ? "'" : "' (sharding.halo)");
}

LogicalResult Verifier::checkAxes() {
  for (const LaidTensor &tensor : tensors)
    for (auto &[factor, axes] : tensor.split)
      for (AxisRef ref : axes) {
        auto [it, isNew] = owner.insert({key(ref), factor});
        if (!isNew && it->second != factor)
          return error(5, tensor.name)
                 << " dim " << dimOf(tensor, factor) << " is split over "
                 << name(ref)
                 << ", which splits another, unrelated dim of this op; an axis "
                    "splits one factor";
      }
  return success();
}

LogicalResult Verifier::checkPartial() {
  // For each sub-axis, the operands that are partial over it.
  llvm::MapVector<std::tuple<int32_t, int64_t, int64_t>,
                  std::pair<ReductionKind, SmallVector<unsigned>>>
      partial;
  for (const LaidTensor &tensor : tensors) {
    if (tensor.isResult)
      continue;
    for (AxisRef ref : tensor.partial) {
      auto &[kind, operands] = partial[key(ref)];
      if (!operands.empty() && kind != tensor.layout.getPartialKind())
        return error(7, tensor.name)
               << " is a partial "
               << stringifyReductionKind(tensor.layout.getPartialKind())
               << " over " << name(ref) << " where operand " << operands.front()
               << " is a partial " << stringifyReductionKind(kind)
               << "; reduce one of them first";
      kind = tensor.layout.getPartialKind();
      operands.push_back(tensor.number);
      if (owner.count(key(ref)))
        return error(7, tensor.name)
               << " is a partial " << stringifyReductionKind(kind) << " over "
               << name(ref)
               << ", which splits another operand; reduce it first";
    }
  }
  for (auto &[ref, entry] : partial) {
    auto &[kind, operands] = entry;
    AxisRef axis{std::get<0>(ref), std::get<1>(ref), std::get<2>(ref)};
    unsigned together = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      together += rule.getPass(kind, i) == PartialPass::Together;
    for (unsigned operand : operands) {
      PartialPass pass = rule.getPass(kind, operand);
      if (pass == PartialPass::None)
        return error(7, "operand ")
               << operand << " is a partial " << stringifyReductionKind(kind)
               << " over " << name(axis) << ", and this op of a partial "
               << stringifyReductionKind(kind)
               << " is not the partial of the op; reduce it first "
                  "(sharding.all_reduce or sharding.reduce_scatter)";
      if (pass == PartialPass::Alone && operands.size() > 1)
        return error(7, "operands ")
               << operands[0] << " and " << operands[1] << " are both partial "
               << stringifyReductionKind(kind) << "s over " << name(axis)
               << "; only one at a time may be: reduce the other first";
      if (pass == PartialPass::Together && operands.size() != together)
        return error(7, "operand ")
               << operand << " is a partial " << stringifyReductionKind(kind)
               << " over " << name(axis)
               << " but another operand is not; make both partial "
                  "(sharding.to_partial) or reduce this one first";
    }
  }
  for (const LaidTensor &tensor : tensors) {
    if (!tensor.isResult)
      continue;
    // The sub-axes over which the result must be partial, and their reduction
    // kinds.
    llvm::MapVector<std::tuple<int32_t, int64_t, int64_t>, ReductionKind>
        expected;
    for (auto &[ref, entry] : partial)
      expected.insert({ref, entry.first});
    for (auto &[ref, factor] : owner)
      if (!rule.resultHas(tensor.number, factor) &&
          !rule.isResultOnly(factor) &&
          rule.factors[factor].kind != FactorKind::Parallel)
        expected.insert({ref, rule.factors[factor].reduction});
    for (AxisRef ref : tensor.partial) {
      auto it = expected.find(key(ref));
      if (it == expected.end())
        return error(8, tensor.name)
               << " is typed as a partial "
               << stringifyReductionKind(tensor.layout.getPartialKind())
               << " over " << name(ref)
               << ", but every device computes the whole of it; it would be "
                  "reduced twice";
      if (it->second != tensor.layout.getPartialKind())
        return error(8, tensor.name)
               << " is a partial " << stringifyReductionKind(it->second)
               << " over " << name(ref) << ", not a partial "
               << stringifyReductionKind(tensor.layout.getPartialKind());
    }
    for (auto &[ref, kind] : expected) {
      AxisRef axis{std::get<0>(ref), std::get<1>(ref), std::get<2>(ref)};
      if (!llvm::is_contained(tensor.partial, axis))
        return error(8, tensor.name)
               << " lacks 'partial = " << stringifyReductionKind(kind) << " {"
               << name(axis)
               << "}': each device has only a part of the reduction";
    }
  }
  return success();
}

LogicalResult Verifier::checkPadding() {
  for (auto [index, factor] : llvm::enumerate(rule.factors)) {
    const LaidTensor *first = nullptr;
    bool reduced = false;
    for (const LaidTensor &tensor : tensors) {
      auto it = tensor.dims.find(index);
      if (tensor.isResult && it == tensor.dims.end() &&
          !rule.isResultOnly(index))
        reduced = true;
      if (it == tensor.dims.end())
        continue;
      if (first && extentOf(*first, index) != extentOf(tensor, index)) {
        auto wrong = error(9, tensor.name)
                     << " dim " << dimOf(tensor, index) << " has extent "
                     << dimExtent(tensor, dimOf(tensor, index)) << " where "
                     << first->name << " dim " << dimOf(*first, index)
                     << " has extent "
                     << dimExtent(*first, dimOf(*first, index));
        if (factor.kind == FactorKind::Halo)
          return wrong << "; their blocks must be in the ratio "
                       << borderOf(tensor, index).scale << ":"
                       << borderOf(*first, index).scale << " (sharding.repad)";
        return wrong << "; a factor has one padded extent (sharding.repad)";
      }
      if (!first)
        first = &tensor;
      if (tensor.isResult && it->second.getFill() != sharding::Fill::Undefined)
        return error(10, tensor.name)
               << " dim " << dimOf(tensor, index) << " claims 'fill "
               << stringifyFill(it->second.getFill())
               << "'; what an op leaves in padding is undefined "
                  "(sharding.fill)";
    }
    if (!reduced || !first || !first->dims.lookup(index).getPadded())
      continue;
    sharding::Fill needed = sharding::identityFill(factor.reduction);
    for (const LaidTensor &tensor : tensors)
      if (!tensor.isResult && tensor.dims.count(index) &&
          tensor.dims.lookup(index).getFill() != needed)
        return error(9, tensor.name)
               << " dim " << dimOf(tensor, index)
               << " is reduced over its padding, which must hold 'fill "
               << stringifyFill(needed) << "' (sharding.fill)";
  }
  return success();
}

LogicalResult Verifier::checkPlaces() {
  const LaidTensor *placed = nullptr;
  for (const LaidTensor &tensor : tensors) {
    if (tensor.isResult || tensor.layout.getPlaces().empty())
      continue;
    if (placed && placed->layout.getPlaces() != tensor.layout.getPlaces())
      return error(11, tensor.name)
             << " lives at another place than " << placed->name
             << ", and no op moves a value to another place";
    placed = &tensor;
  }
  if (op->getNumOperands() == 0)
    return success();
  for (const LaidTensor &tensor : tensors) {
    ArrayRef<sharding::Place> places =
        placed ? placed->layout.getPlaces() : ArrayRef<sharding::Place>();
    if (tensor.isResult && tensor.layout.getPlaces() != places)
      return error(11, tensor.name)
             << " must live where the operands do"
             << (placed ? " (" + placed->name + ")" : std::string());
    for (sharding::Place place : places)
      if (sharding::overlap(tensor.layout.getUsedAxes(),
                            mesh.getAxis(place.axis)) &&
          !llvm::is_contained(tensor.layout.getPlaces(), place))
        return error(11, tensor.name)
               << " uses mesh axis " << name(mesh.getAxis(place.axis))
               << ", at one coordinate of which " << placed->name << " lives";
  }
  return success();
}

LogicalResult polyrank::graph::verifyLayouts(Operation *op) {
  auto hasLayout = [](Value value) { return !!sharding::getLayout(value); };
  if (llvm::none_of(op->getOperands(), hasLayout) &&
      llvm::none_of(op->getResults(), hasLayout))
    return success();
  return verifyLayouts(op, cast<GraphOp>(op).getShardingRule());
}

LogicalResult polyrank::graph::verifyLayouts(Operation *op,
                                             const ShardingRule &rule) {
  return Verifier(op, rule).run();
}
