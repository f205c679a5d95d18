// Writes a solution into the program: types, and reshards where producer and
// user of a value disagree.

#include "compiler/sharding/WriteLayouts.h"

#include "compiler/sharding/Candidates.h"
#include "compiler/sharding/Why.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Reason.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;

namespace {

/// Writes values in program order.
class Writer {
public:
  explicit Writer(const Propagated &propagated)
      : propagated(propagated), table(propagated.table),
        costs(propagated.table.mesh) {}

  LogicalResult write();
  /// Per value of `wanted` (readParts), the value in the wanted layout.
  SuppliedValues supplied;

private:
  const Candidate &candidateOf(int node) const {
    return propagated.candidates[node][propagated.solution.candidates[node]];
  }
  LayoutAttr defined(const TensorValue &value) const {
    return candidateOf(value.def).results[value.result];
  }
  LayoutAttr demanded(const Use &use) const {
    return candidateOf(use.node).operands[use.operand];
  }
  /// The layout in which a use reads a value of layout `have`: the demanded
  /// one, but with the fill of `have` where the use accepts any.
  LayoutAttr settle(LayoutAttr demand, LayoutAttr have, bool exact) const;
  bool isExact(const Use &use) const {
    NodeKind kind = table.nodes[use.node].kind;
    return kind == NodeKind::Boundary || kind == NodeKind::Carry ||
           kind == NodeKind::Fixed;
  }
  void setType(Value value, LayoutAttr layout) {
    value.setType(
        sharding::withLayout(cast<RankedTensorType>(value.getType()), layout));
  }
  void writeSource(const TensorValue &value);
  LogicalResult writeValue(const TensorValue &value);
  void supply(const TensorValue &of, const Use &use, Value value);
  Value reshard(const TensorValue &value, Value from, LayoutAttr to,
                const Use &use, Operation *first);
  Operation *firstUser(const TensorValue &value, ArrayRef<LayoutAttr> layouts,
                       ArrayRef<LayoutAttr> perUse) const;
  ReasonAttr why(const TensorValue &value, LayoutAttr from, LayoutAttr to,
                 const Use &use) const;
  std::string blame(const TensorValue &value, LayoutAttr from, LayoutAttr to,
                    const Use &use) const;
  void wrapComposite(const Node &node, const Candidate &candidate);

  const Propagated &propagated;
  const SideTable &table;
  ReshardCosts costs;
  /// Per pinned value: the value that its users read.
  llvm::DenseMap<int, Value> pinned;
};

} // namespace

LayoutAttr Writer::settle(LayoutAttr demand, LayoutAttr have,
                          bool exact) const {
  if (exact)
    return demand;
  SmallVector<DimAttr> dims;
  for (auto [wanted, given] :
       llvm::zip_equal(demand.getDims(), have.getDims())) {
    bool keeps = wanted.getFill() == sharding::Fill::Undefined &&
                 wanted.getPadded() && wanted.getPadded() == given.getPadded();
    dims.push_back(DimAttr::get(
        table.mesh, wanted.getAxes(), wanted.getPadded(),
        keeps ? given.getFill() : wanted.getFill(), wanted.getHaloLow(),
        wanted.getHaloHigh(), wanted.getSpills()));
  }
  return demand.withDims(dims);
}

std::string Writer::blame(const TensorValue &value, LayoutAttr from,
                          LayoutAttr to, const Use &use) const {
  // Collects the constraints that put the changed axes there: the user's
  // constraint if the user splits, or else the one that split the producer or
  // made it partial.
  SmallVector<std::string> texts;
  auto usedBy = [&](LayoutAttr layout, AxisRef subAxis, bool partial) {
    return partial ? sharding::overlap(layout.getPartialAxes(), subAxis)
                   : llvm::any_of(layout.getDims(), [&](DimAttr dim) {
                       return sharding::overlap(dim.getAxes(), subAxis);
                     });
  };
  auto add = [&](int node, size_t subAxis) {
    const Choice &choice = candidateOf(node).choices[subAxis];
    for (const Arrival &arrival :
         propagated.reach.nodes[node].arrivals[subAxis])
      if (arrival.constraint >= 0 &&
          (choice.kind != Choice::Split || arrival.factor == choice.factor)) {
        const std::string &text = table.constraints[arrival.constraint].text;
        if (!llvm::is_contained(texts, text))
          texts.push_back(text);
        return true;
      }
    return false;
  };
  for (auto [subAxis, ref] : llvm::enumerate(table.subAxes)) {
    bool changes = false;
    bool bordersChange = false;
    for (auto [a, b] : llvm::zip_equal(from.getDims(), to.getDims())) {
      changes |= sharding::overlap(a.getAxes(), ref) !=
                 sharding::overlap(b.getAxes(), ref);
      bordersChange |=
          a.hasHalo() != b.hasHalo() && sharding::overlap(a.getAxes(), ref);
    }
    changes |= bordersChange;
    changes |= usedBy(from, ref, true) != usedBy(to, ref, true);
    if (!changes)
      continue;
    bool found = usedBy(to, ref, false) && add(use.node, subAxis);
    if (found && !usedBy(from, ref, true))
      continue;
    // Walks back along the partial to the node that made it.
    for (int node = value.def; node >= 0;) {
      if (candidateOf(node).choices[subAxis].kind != Choice::Pass) {
        add(node, subAxis);
        break;
      }
      const Node &entry = table.nodes[node];
      uint32_t operands = candidateOf(node).choices[subAxis].operands;
      node = -1;
      for (auto [i, id] : llvm::enumerate(entry.operands))
        if (operands >> i & 1 && usedBy(defined(table.values[id]), ref, true)) {
          node = table.values[id].def;
          break;
        }
    }
  }
  return llvm::join(texts, "; ");
}

ReasonAttr Writer::why(const TensorValue &value, LayoutAttr from, LayoutAttr to,
                       const Use &use) const {
  Reason reason;
  reason.producer = table.nodes[value.def].name;
  reason.user = table.nodes[use.node].name;
  reason.from = describe(from);
  reason.to = describe(to);
  reason.constraint = blame(value, from, to, use);
  return reason.get(table.mesh.getContext());
}

/// The first op in the value's own block that needs it in one of `layouts`;
/// null if a use is not in the block.
Operation *Writer::firstUser(const TensorValue &value,
                             ArrayRef<LayoutAttr> layouts,
                             ArrayRef<LayoutAttr> perUse) const {
  Block *block = Value(value.value).getParentBlock();
  Operation *first = nullptr;
  for (auto [use, layout] : llvm::zip_equal(value.uses, perUse)) {
    if (!llvm::is_contained(layouts, layout))
      continue;
    Operation *user = use.slot
                          ? block->findAncestorOpInBlock(*use.slot->getOwner())
                          : nullptr;
    if (!user)
      return nullptr;
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  return first;
}

/// Creates a reshard: right after the value if it shrinks, right before its
/// first use if it grows.
Value Writer::reshard(const TensorValue &value, Value from, LayoutAttr to,
                      const Use &use, Operation *first) {
  OpBuilder builder(table.mesh.getContext());
  auto type = cast<RankedTensorType>(from.getType());
  bool grows = cost::getLocalBytes(sharding::withLayout(type, to)) >
               cost::getLocalBytes(type);
  if (grows && first)
    builder.setInsertionPoint(first);
  else
    builder.setInsertionPointAfterValue(from);
  auto op = sharding::ReshardOp::create(
      builder, value.value.getLoc(), TypeRange(sharding::withLayout(type, to)),
      ValueRange(from), why(value, sharding::getLayout(from), to, use));
  return op->getResult(0);
}

void Writer::supply(const TensorValue &of, const Use &use, Value value) {
  if (use.slot)
    use.slot->set(value);
  else if (table.nodes[use.node].kind == NodeKind::Pin)
    pinned[table.nodes[use.node].results.front()] = value;
  else
    supplied[of.value] = value;
}

/// Gives every user a copy of the source in the layout that it wants. Partial
/// copies are made from whole ones, and borders are fetched.
void Writer::writeSource(const TensorValue &value) {
  Operation *op = table.nodes[value.def].op;
  LayoutAttr whole =
      LayoutAttr::getReplicated(table.mesh, value.getType().getRank());
  setType(value.value, whole);
  if (isa<BlockArgument>(value.value)) {
    for (const Use &use : value.uses)
      supply(value, use, value.value);
    return;
  }
  llvm::MapVector<LayoutAttr, Value> made;
  bool free = true; // the op itself has not been given a layout yet
  auto split = [&](LayoutAttr layout) {
    Value &copy = made[layout];
    if (!copy) {
      Operation *source = op;
      if (!free)
        source = OpBuilder(op).clone(*op);
      free = false;
      copy = source->getResult(value.result);
      setType(copy, layout);
    }
    return copy;
  };
  llvm::MapVector<std::pair<LayoutAttr, LayoutAttr>, Value> converted;
  for (const Use &use : value.uses) {
    LayoutAttr demand = demanded(use);
    SmallVector<DimAttr> dims;
    for (DimAttr dim : demand.getDims())
      dims.push_back(DimAttr::get(table.mesh, dim.getAxes(), dim.getPadded(),
                                  dim.getFill()));
    LayoutAttr plain = withoutFill(
        demand.withDims(dims).withPartial(sharding::ReductionKind::Sum, {}));
    Value copy = split(plain);
    if (plain != demand) {
      Value &result = converted[{plain, demand}];
      if (!result)
        result = reshard(value, copy, demand, use, nullptr);
      copy = result;
    }
    supply(value, use, copy);
  }
}

LogicalResult Writer::writeValue(const TensorValue &value) {
  const Node &def = table.nodes[value.def];
  if (def.kind == NodeKind::Source) {
    writeSource(value);
    return success();
  }
  int id = static_cast<int>(&value - table.values.data());
  Value source = value.value;
  LayoutAttr have;
  if (def.kind == NodeKind::Pin) {
    source = pinned.lookup(id);
    have = sharding::getLayout(source);
  } else if (def.kind == NodeKind::Fixed) {
    have = sharding::getLayout(source);
  } else {
    have = defined(value);
    // Slices and sums keep the fill of their operand.
    if (def.kind == NodeKind::Slice || def.kind == NodeKind::Sum) {
      Value operand;
      for (const Use &use : table.values[def.operands.front()].uses)
        if (use.node == value.def)
          operand = use.slot->get();
      LayoutAttr given = sharding::getLayout(operand);
      ArrayRef<DimAttr> dims = given.getDims();
      have =
          have.withDims(def.kind == NodeKind::Slice ? dims.drop_front() : dims);
    }
    setType(source, have);
  }

  // Distinct layouts, each with one use that wants it.
  SmallVector<LayoutAttr> wanted;
  SmallVector<const Use *> wantedBy;
  SmallVector<LayoutAttr> perUse;
  for (const Use &use : value.uses) {
    LayoutAttr layout = settle(demanded(use), have, isExact(use));
    perUse.push_back(layout);
    if (layout != have && !llvm::is_contained(wanted, layout)) {
      wanted.push_back(layout);
      wantedBy.push_back(&use);
    }
  }
  // Sorts them so that the order of the uses does not matter.
  SmallVector<unsigned> sorted =
      llvm::to_vector(llvm::seq<unsigned>(0, wanted.size()));
  llvm::sort(sorted, [&](unsigned a, unsigned b) {
    return wanted[a].toString() < wanted[b].toString();
  });
  SmallVector<LayoutAttr> layouts;
  SmallVector<const Use *> users;
  for (unsigned i : sorted) {
    layouts.push_back(wanted[i]);
    users.push_back(wantedBy[i]);
  }
  auto making = costs.make(value.getType(), have, layouts);
  if (making.bytes < 0)
    return def.op->emitError() << def.name << ": no way from layout "
                               << have.toString() << " to those of its users";
  // A layout is needed as soon as any layout that is made from it.
  SmallVector<SmallVector<LayoutAttr>> below(layouts.size());
  for (auto [item, parent] : llvm::reverse(making.steps)) {
    below[item].push_back(layouts[item]);
    if (parent >= 0)
      llvm::append_range(below[parent], below[item]);
  }
  SmallVector<Value> made(layouts.size());
  for (auto [item, parent] : making.steps)
    made[item] =
        reshard(value, parent < 0 ? source : made[parent], layouts[item],
                *users[item], firstUser(value, below[item], perUse));
  for (auto [use, layout] : llvm::zip_equal(value.uses, perUse)) {
    const auto *it = llvm::find(layouts, layout);
    supply(value, use,
           it == layouts.end() ? source : made[it - layouts.begin()]);
  }
  return success();
}

/// Keeps an op that is split on a composite factor legal until it is
/// decomposed: it computes on gathered operands, and `sharding.composite` marks
/// the reshards around it that are to be removed.
void Writer::wrapComposite(const Node &node, const Candidate &candidate) {
  Operation *op = node.op;
  SmallVector<Choice> choices(candidate.choices.begin(),
                              candidate.choices.end());
  for (Choice &choice : choices)
    if (choice.kind == Choice::Split &&
        node.rule.factors[choice.factor].kind == graph::FactorKind::Composite)
      choice = {};
  std::optional<Candidate> whole =
      makeCandidate(table, &propagated.extents, node, choices);
  assert(whole && "a candidate without some of its splits is a candidate");
  Reason reason;
  reason.user = node.name;
  ReasonAttr why = reason.get(op->getContext());
  OpBuilder before(op);
  for (OpOperand &slot : op->getOpOperands()) {
    LayoutAttr have = sharding::getLayout(slot.get());
    LayoutAttr want =
        settle(whole->operands[slot.getOperandNumber()], have, false);
    if (have == want)
      continue;
    auto type = cast<RankedTensorType>(slot.get().getType());
    auto gathered = sharding::ReshardOp::create(
        before, op->getLoc(), TypeRange(sharding::withLayout(type, want)),
        ValueRange(slot.get()), why);
    sharding::markComposite(gathered);
    slot.set(gathered->getResult(0));
  }
  OpBuilder after(op->getContext());
  after.setInsertionPointAfter(op);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    LayoutAttr want = sharding::getLayout(result);
    LayoutAttr have = whole->results[i];
    if (have == want)
      continue;
    setType(result, have);
    auto type = cast<RankedTensorType>(result.getType());
    auto split = sharding::ReshardOp::create(
        after, op->getLoc(), TypeRange(sharding::withLayout(type, want)),
        ValueRange(result), why);
    sharding::markComposite(split);
    result.replaceAllUsesExcept(split->getResult(0), split);
  }
  // The reason of the parts: the constraints that split the composite.
  SmallVector<std::string> texts;
  for (auto [subAxis, choice] : llvm::enumerate(candidate.choices))
    if (choices[subAxis].kind != choice.kind)
      for (const Arrival &arrival : propagated.reach.of(node).arrivals[subAxis])
        if (arrival.factor == choice.factor && arrival.constraint >= 0)
          texts.push_back(table.constraints[arrival.constraint].text);
  sharding::markComposite(op, llvm::join(texts, "; "));
}

LogicalResult Writer::write() {
  // Values are in program order, so a pinned value comes after the value that
  // it pins, and a slice or sum after its operand.
  for (const TensorValue &value : table.values)
    if (failed(writeValue(value)))
      return failure();
  for (auto [id, node] : llvm::enumerate(table.nodes))
    if (candidateOf(id).composite)
      wrapComposite(node, candidateOf(id));
  return success();
}

FailureOr<SuppliedValues>
polyrank::sharding::writeLayouts(const Propagated &propagated) {
  Writer writer(propagated);
  if (failed(writer.write()))
    return failure();
  return std::move(writer.supplied);
}

FailureOr<SuppliedValues> polyrank::sharding::layOutParts(
    MeshAttr mesh, ArrayRef<Operation *> ops,
    const llvm::MapVector<Value, LayoutAttr> &wanted, StringRef reason,
    bool isUpdate) {
  FailureOr<Propagated> propagated =
      solveParts(mesh, ops, wanted, reason, isUpdate);
  if (failed(propagated))
    return failure();
  return writeLayouts(*propagated);
}
