// Dijkstra's algorithm over layouts.

#include "compiler/cost/ReshardPlanner.h"

#include <queue>

#include "runtime/plan/CollectiveTime.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::MovementKind;

namespace {
/// Larger searches are refused.
constexpr size_t maxSubAxes = 6;
constexpr size_t maxStates = 200'000;

using Stack = SmallVector<uint8_t, 3>;

/// A layout, expressed in sub-axes.
struct State {
  SmallVector<Stack, 4> dims;
  /// Dims that have the target's extent and fill already.
  uint32_t repadded = 0;
  /// Dims whose padding lost its content in a to_partial.
  uint32_t unfilled = 0;
  uint32_t partial = 0;
  /// True if `partial` has the target's reduction kind.
  bool targetKind = false;

  auto key() const {
    return std::tie(dims, repadded, unfilled, partial, targetKind);
  }
  friend bool operator<(const State &left, const State &right) {
    return left.key() < right.key();
  }
  friend bool operator==(const State &left, const State &right) {
    return left.key() == right.key();
  }
};

struct Search {
  Search(const CostModel &model, RankedTensorType type, LayoutAttr target)
      : model(model), type(type), mesh(target.getMesh()),
        source(sharding::getLayout(type)), target(target) {}

  /// If there is no plan, fails and sets `reason`.
  FailureOr<ReshardPlanner::Plan> run(std::string &reason);

private:
  struct Reached {
    double time = 0; // picoseconds
    int64_t picoseconds = 0, ops = 0;
    const State *previous = nullptr;
    MovementKind kind = MovementKind::Reshard;
    bool done = false;
  };
  using Entry = std::tuple<int64_t, int64_t, const State *>;
  struct Later {
    bool operator()(const Entry &left, const Entry &right) const {
      auto key = [](const Entry &entry) {
        return std::tuple(std::get<0>(entry), std::get<1>(entry));
      };
      return key(left) != key(right) ? key(left) > key(right)
                                     : *std::get<2>(right) < *std::get<2>(left);
    }
  };

  bool makeSubAxes(std::string &reason);
  State toState(LayoutAttr layout, bool isTarget) const;
  LayoutAttr toLayout(const State &state) const;

  int64_t extent(const State &state, size_t dim) const {
    LayoutAttr layout = state.repadded >> dim & 1 ? target : source;
    return layout.getDim(dim).getExtent(type.getDimSize(dim));
  }
  bool changesKind() const {
    return source.isPartial() && target.isPartial() &&
           source.getPartialKind() != target.getPartialKind();
  }
  bool sameExtent(size_t dim) const {
    return source.getDim(dim).getPadded() == target.getDim(dim).getPadded();
  }
  int64_t blocks(const Stack &stack) const {
    int64_t count = 1;
    for (uint8_t subAxis : stack)
      count *= subAxes[subAxis].size;
    return count;
  }
  bool divides(const State &state, size_t dim) const {
    return extent(state, dim) % blocks(state.dims[dim]) == 0;
  }
  int64_t bytes(const State &state) const {
    int64_t count = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    for (size_t d = 0; d < state.dims.size(); ++d)
      count *= extent(state, d) / blocks(state.dims[d]);
    return count;
  }
  uint32_t used(const State &state) const {
    uint32_t mask = state.partial;
    for (const Stack &stack : state.dims)
      for (uint8_t subAxis : stack)
        mask |= 1u << subAxis;
    return mask;
  }

  void expand(const State &state);
  void expandReductions(const State &state);
  void expandPermutes(const State &state, State &next, size_t dim,
                      uint32_t free);
  /// Records that `next` is reached from `state` by an op over `axes`.
  void reach(const State &state, const State &next, MovementKind kind,
             ArrayRef<AxisRef> axes = {});
  ReshardPlanner::Plan extract(const State &goal) const;

  const CostModel &model;
  RankedTensorType type;
  sharding::MeshAttr mesh;
  LayoutAttr source, target;
  SmallVector<AxisRef> subAxes;
  std::map<State, Reached> states;
  std::priority_queue<Entry, std::vector<Entry>, Later> queue;
};
} // namespace

/// Picoseconds of one movement, not rounded.
static double timeOf(const CostModel &model, MovementKind kind,
                     ArrayRef<AxisRef> axes, int64_t before, int64_t after) {
  auto collective = sharding::getCollectiveKind(kind);
  int64_t devices = sharding::product(axes);
  return collective ? model.getExactTime(
                          *collective, axes,
                          CostModel::getBytes(kind, devices, before, after))
                    : 0;
}

bool Search::makeSubAxes(std::string &reason) {
  SmallVector<AxisRef> cuts;
  for (LayoutAttr layout : {source, target}) {
    llvm::append_range(cuts, layout.getPartialAxes());
    for (DimAttr dim : layout.getDims())
      llvm::append_range(cuts, dim.getAxes());
  }
  auto pieces = sharding::subAxes(cuts, cuts);
  if (!pieces) {
    reason = "the layouts cut one mesh axis at sizes that do not divide each "
             "other";
    return false;
  }
  llvm::sort(*pieces);
  pieces->erase(llvm::unique(*pieces), pieces->end());
  subAxes = *pieces;
  if (subAxes.size() > maxSubAxes) {
    reason = "the two layouts use " + std::to_string(subAxes.size()) +
             " axes and sub-axes, more than " + std::to_string(maxSubAxes);
    return false;
  }
  return true;
}

State Search::toState(LayoutAttr layout, bool isTarget) const {
  auto indices = [&](ArrayRef<AxisRef> axes) {
    Stack stack;
    std::optional<SmallVector<AxisRef>> pieces =
        sharding::subAxes(axes, subAxes);
    for (AxisRef piece : *pieces)
      stack.push_back(llvm::find(subAxes, piece) - subAxes.begin());
    return stack;
  };
  State state;
  for (auto [d, dim] : llvm::enumerate(layout.getDims())) {
    state.dims.push_back(indices(dim.getAxes()));
    if (isTarget && !sameExtent(d))
      state.repadded |= 1u << d;
  }
  for (uint8_t subAxis : indices(layout.getPartialAxes()))
    state.partial |= 1u << subAxis;
  state.targetKind = isTarget && changesKind();
  return state;
}

LayoutAttr Search::toLayout(const State &state) const {
  SmallVector<DimAttr> dims;
  for (auto [d, stack] : llvm::enumerate(state.dims)) {
    SmallVector<AxisRef> axes;
    for (uint8_t subAxis : stack)
      axes.push_back(subAxes[subAxis]);
    DimAttr like =
        state.repadded >> d & 1 ? target.getDim(d) : source.getDim(d);
    sharding::Fill fill =
        state.unfilled >> d & 1 ? sharding::Fill::Undefined : like.getFill();
    dims.push_back(DimAttr::get(mesh, axes, like.getPadded(), fill));
  }
  SmallVector<AxisRef> partial;
  for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
    if (state.partial >> subAxis & 1)
      partial.push_back(subAxes[subAxis]);
  auto kind = state.targetKind || !source.isPartial() ? target.getPartialKind()
                                                      : source.getPartialKind();
  return LayoutAttr::get(mesh, dims, kind, partial, source.getPlaces());
}

void Search::reach(const State &state, const State &next, MovementKind kind,
                   ArrayRef<AxisRef> axes) {
  const Reached &from = states.at(state);
  // The time of a whole path is rounded, so that equal paths are equal.
  double time =
      from.time +
      (axes.empty() ? 0 : timeOf(model, kind, axes, bytes(state), bytes(next)));
  int64_t picoseconds = wholePicoseconds(time);
  // Fewer collectives first, then fewer ops.
  constexpr int64_t manyOps = 1'000;
  int64_t ops =
      from.ops + (sharding::getCollectiveKind(kind) ? manyOps + 1 : 1);
  auto [it, isNew] = states.try_emplace(next);
  Reached &to = it->second;
  if (!isNew && (to.done || std::pair(to.picoseconds, to.ops) <=
                                std::pair(picoseconds, ops)))
    return;
  to = {time, picoseconds, ops, &states.find(state)->first, kind, false};
  queue.push({picoseconds, ops, &it->first});
}

void Search::expandReductions(const State &state) {
  for (uint32_t set = state.partial; set; set = (set - 1) & state.partial) {
    State next = state;
    next.partial &= ~set;
    SmallVector<uint8_t> order;
    SmallVector<AxisRef> axes;
    for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
      if (set >> subAxis & 1) {
        order.push_back(subAxis);
        axes.push_back(subAxes[subAxis]);
      }
    reach(state, next, MovementKind::AllReduce, axes);
    do {
      for (size_t d = 0; d < state.dims.size(); ++d) {
        State scattered = next;
        scattered.dims[d].append(order.begin(), order.end());
        if (divides(scattered, d))
          reach(state, scattered, MovementKind::ReduceScatter, axes);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

/// `next` has its dims below `dim` rearranged; the sub-axes in `free` are
/// unused.
void Search::expandPermutes(const State &state, State &next, size_t dim,
                            uint32_t free) {
  if (dim == state.dims.size()) {
    SmallVector<AxisRef> axes;
    for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
      for (size_t d = 0; d < dim; ++d)
        if (state.dims[d] != next.dims[d] &&
            (llvm::is_contained(state.dims[d], subAxis) ||
             llvm::is_contained(next.dims[d], subAxis)))
          if (!llvm::is_contained(axes, subAxes[subAxis]))
            axes.push_back(subAxes[subAxis]);
    if (!axes.empty())
      reach(state, next, MovementKind::Permute, axes);
    return;
  }
  int64_t wanted = blocks(state.dims[dim]), have = blocks(next.dims[dim]);
  if (have == wanted) {
    expandPermutes(state, next, dim + 1, free);
    return;
  }
  for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
    if (free >> subAxis & 1 && wanted % (have * subAxes[subAxis].size) == 0) {
      next.dims[dim].push_back(subAxis);
      expandPermutes(state, next, dim, free & ~(1u << subAxis));
      next.dims[dim].pop_back();
    }
}

void Search::expand(const State &state) {
  uint32_t inUse = used(state);
  size_t rank = state.dims.size();
  for (size_t d = 0; d < rank; ++d) {
    for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis) {
      State next = state;
      next.dims[d].push_back(subAxis);
      if (!(inUse >> subAxis & 1) && divides(next, d))
        reach(state, next, MovementKind::Slice);
    }
    SmallVector<AxisRef> axes;
    Stack moved;
    for (State next = state; !next.dims[d].empty();) {
      moved.insert(moved.begin(), next.dims[d].pop_back_val());
      axes.insert(axes.begin(), subAxes[moved.front()]);
      reach(state, next, MovementKind::AllGather, axes);
      for (size_t t = 0; t < rank; ++t) {
        State exchanged = next;
        llvm::append_range(exchanged.dims[t], moved);
        if (t != d && divides(exchanged, t))
          reach(state, exchanged, MovementKind::AllToAll, axes);
      }
    }
    if (state.dims[d].empty() && !(state.repadded >> d & 1) && !sameExtent(d)) {
      State next = state;
      next.repadded |= 1u << d;
      next.unfilled &= ~(1u << d);
      reach(state, next, MovementKind::Repad);
    }
  }
  expandReductions(state);
  State empty = state;
  for (Stack &stack : empty.dims)
    stack.clear();
  expandPermutes(state, empty, 0,
                 ((1u << subAxes.size()) - 1) & ~state.partial);
  // A further axis may become partial: one reduce_scatter over both axes then
  // replaces a reduce_scatter and a slice, which would split in the wrong
  // order.
  if (!source.isPartial() && !target.isPartial())
    return;
  bool intoTarget = changesKind() && (state.targetKind || !state.partial);
  for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
    if (!(inUse >> subAxis & 1)) {
      State next = state;
      next.partial |= 1u << subAxis;
      next.targetKind = intoTarget;
      LayoutAttr layout = toLayout(next);
      for (auto [d, dim] : llvm::enumerate(layout.getDims()))
        if (sharding::getPartialDim(dim, mesh, layout.getPartialKind()) != dim)
          next.unfilled |= 1u << d;
      reach(state, next, MovementKind::ToPartial);
    }
}

/// A step that only extends the step before it is merged into it.
ReshardPlanner::Plan Search::extract(const State &goal) const {
  ReshardPlanner::Plan plan;
  SmallVector<std::pair<MovementKind, const State *>> path;
  for (const State *at = &goal; states.at(*at).previous;
       at = states.at(*at).previous)
    path.push_back({states.at(*at).kind, at});
  for (auto [kind, state] : llvm::reverse(path)) {
    LayoutAttr after = toLayout(*state);
    LayoutAttr start = plan.steps.size() > 1
                           ? plan.steps[plan.steps.size() - 2].layout
                           : source;
    if (!plan.steps.empty() && plan.steps.back().kind == kind &&
        llvm::is_contained(
            {MovementKind::Slice, MovementKind::ToPartial, MovementKind::Repad},
            kind) &&
        sharding::getMovement(kind, start, after))
      plan.steps.back().layout = after;
    else
      plan.steps.push_back({kind, after});
  }
  return plan;
}

FailureOr<ReshardPlanner::Plan> Search::run(std::string &reason) {
  if (source.getMesh() != mesh || source.getPlaces() != target.getPlaces()) {
    reason = "no op moves a value to another place";
    return failure();
  }
  auto isBorder = [](DimAttr dim) { return dim.hasHalo() && !dim.getSpills(); };
  auto spills = [](DimAttr dim) { return dim.getSpills(); };
  if (llvm::any_of(source.getDims(), isBorder)) {
    reason = "a value with borders is not moved; take the one without";
    return failure();
  }
  if (llvm::any_of(target.getDims(), spills)) {
    reason = "only the op that makes sums for the neighbours gives them";
    return failure();
  }
  // Border sums are added to the neighbours first and borders are fetched last,
  // one dim after the other.
  ReshardPlanner::Plan plan;
  auto bare = [&](DimAttr dim) {
    return DimAttr::get(mesh, dim.getAxes(), dim.getPadded(), dim.getFill());
  };
  for (auto [d, dim] : llvm::enumerate(source.getDims()))
    if (dim.getSpills()) {
      source = source.withDim(d, bare(dim));
      plan.steps.push_back({MovementKind::HaloAdd, source});
    }
  LayoutAttr bordered = target;
  for (auto [d, dim] : llvm::enumerate(bordered.getDims()))
    target = target.withDim(d, bare(dim));
  if (!makeSubAxes(reason))
    return failure();

  State goal = toState(target, true);
  states[toState(source, false)];
  queue.push({0, 0, &states.begin()->first});
  const Reached *end = nullptr;
  while (!queue.empty() && !end) {
    const State &state = *std::get<2>(queue.top());
    queue.pop();
    Reached &reached = states.at(state);
    if (reached.done)
      continue;
    reached.done = true;
    // A fill at the end restores the padding that `unfilled` marks as lost.
    State filled = state;
    filled.unfilled = 0;
    if (filled == goal)
      end = &reached, goal = state;
    else if (states.size() <= maxStates)
      expand(state);
  }
  if (!end) {
    reason =
        states.size() > maxStates
            ? "the search ended after " + std::to_string(maxStates) + " layouts"
            : "no sequence of collectives leads there";
    return failure();
  }
  llvm::append_range(plan.steps, extract(goal).steps);
  LayoutAttr last = plan.steps.empty() ? source : plan.steps.back().layout;
  if (last != target)
    plan.steps.push_back({MovementKind::Fill, target});
  for (auto [d, dim] : llvm::enumerate(bordered.getDims()))
    if (dim.hasHalo()) {
      target = target.withDim(d, dim);
      plan.steps.push_back({MovementKind::Halo, target});
    }
  RankedTensorType before = type;
  double time = 0;
  for (const ReshardPlanner::Step &step : plan.steps) {
    RankedTensorType after = sharding::withLayout(type, step.layout);
    auto movement = sharding::getMovement(
        step.kind, sharding::getLayout(before), step.layout);
    assert(movement && "a planned step is one that its op can do");
    plan.bytes +=
        CostModel::getBytes(step.kind, sharding::product(movement->axes),
                            getLocalBytes(before), getLocalBytes(after));
    time += timeOf(model, step.kind, movement->axes, getLocalBytes(before),
                   getLocalBytes(after));
    before = after;
  }
  plan.picoseconds = wholePicoseconds(time);
  return plan;
}

const ReshardPlanner::Plan *ReshardPlanner::plan(RankedTensorType type,
                                                 LayoutAttr target,
                                                 std::string *reason) {
  auto &entry = plans[{type, target}];
  if (!entry) {
    entry = std::make_unique<Entry>();
    FailureOr<Plan> found = Search(model, type, target).run(entry->reason);
    if (succeeded(found))
      entry->plan = *found;
  }
  if (!entry->plan && reason)
    *reason = entry->reason;
  return entry->plan ? &*entry->plan : nullptr;
}
