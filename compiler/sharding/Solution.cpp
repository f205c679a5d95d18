// One label per node, so that the objective is least.

#include "compiler/sharding/Propagation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::LayoutAttr;

int64_t Propagation::getBytes(RankedTensorType type, LayoutAttr from,
                              LayoutAttr to) {
  if (from == to)
    return 0;
  auto [it, isNew] = bytes.try_emplace({type, from, to}, -1);
  if (isNew) {
    const cost::ReshardPlanner::Plan *plan =
        planner.plan(sharding::withLayout(type, from), to);
    int64_t found = plan ? plan->bytes : -1;
    it = bytes.find({type, from, to});
    it->second = found;
  }
  return it->second;
}

Propagation::Making Propagation::make(RankedTensorType type, LayoutAttr from,
                                      ArrayRef<LayoutAttr> wanted) {
  // Attached one after another, each to what is cheapest so far. In some order
  // this gives a cheapest arborescence.
  auto attach = [&](ArrayRef<int> sequence) {
    Making making;
    for (int item : sequence) {
      int64_t least = getBytes(type, from, wanted[item]);
      int parent = -1;
      for (auto [made, unused] : making.steps)
        if (int64_t cost = getBytes(type, wanted[made], wanted[item]);
            cost >= 0 && (least < 0 || cost < least)) {
          least = cost;
          parent = made;
        }
      if (least < 0) {
        making.bytes = -1;
        return making;
      }
      making.bytes += least;
      making.steps.push_back({item, parent});
    }
    return making;
  };
  SmallVector<int> sequence = llvm::to_vector(llvm::seq<int>(0, wanted.size()));
  constexpr size_t allOrders = 4;
  if (wanted.size() > allOrders) {
    // Always the cheapest next.
    SmallVector<int> greedy;
    while (!sequence.empty()) {
      auto addedBy = [&](int item) {
        SmallVector<int> more(greedy);
        more.push_back(item);
        int64_t cost = attach(more).bytes;
        return cost < 0 ? std::numeric_limits<int64_t>::max() : cost;
      };
      int *next = llvm::min_element(
          sequence, [&](int a, int b) { return addedBy(a) < addedBy(b); });
      greedy.push_back(*next);
      sequence.erase(next);
    }
    return attach(greedy);
  }
  Making best = attach(sequence);
  while (std::next_permutation(sequence.begin(), sequence.end())) {
    Making making = attach(sequence);
    if (making.bytes >= 0 && (best.bytes < 0 || making.bytes < best.bytes))
      best = making;
  }
  return best;
}

int64_t Propagation::getValueBytes(const TensorValue &value, LayoutAttr from,
                                   ArrayRef<LayoutAttr> wanted) {
  if (nodes[value.def].kind == NodeKind::Source)
    return 0;
  LayoutAttr source = withoutFill(from);
  SmallVector<LayoutAttr> distinct;
  for (LayoutAttr layout : wanted) {
    LayoutAttr plain = withoutFill(layout);
    if (plain != source && !llvm::is_contained(distinct, plain))
      distinct.push_back(plain);
  }
  if (distinct.empty())
    return 0;
  int64_t cost = make(value.getType(), source, distinct).bytes;
  return cost < 0 ? cost : cost * value.executions;
}

static Objective objectiveOfBytes(int64_t bytes) {
  if (bytes < 0)
    return Objective::impossible();
  Objective objective;
  objective.bytes = bytes;
  return objective;
}

Objective Propagation::evaluateValue(const TensorValue &value,
                                     ArrayRef<int> labels) {
  SmallVector<LayoutAttr> wanted;
  for (const Use &use : value.uses)
    wanted.push_back(
        nodes[use.node].labels[labels[use.node]].operands[use.operand]);
  LayoutAttr from =
      nodes[value.def].labels[labels[value.def]].results[value.result];
  return objectiveOfBytes(getValueBytes(value, from, wanted));
}

Objective Propagation::evaluate(ArrayRef<int> labels) {
  Objective sum;
  for (auto [node, label] : llvm::zip_equal(nodes, labels))
    sum += node.labels[label].cost;
  for (const TensorValue &value : values)
    sum += evaluateValue(value, labels);
  return sum;
}

void Propagation::improve(std::vector<int> &labels) {
  // What a node's label is a part of: the values that it defines or uses.
  std::vector<SmallVector<int>> touched(nodes.size());
  for (auto [id, value] : llvm::enumerate(values)) {
    touched[value.def].push_back(id);
    for (const Use &use : value.uses)
      if (!llvm::is_contained(touched[use.node], static_cast<int>(id)))
        touched[use.node].push_back(id);
  }
  auto part = [&](size_t node) {
    Objective sum = nodes[node].labels[labels[node]].cost;
    for (int id : touched[node])
      sum += evaluateValue(values[id], labels);
    return sum;
  };
  std::vector<bool> isStale(nodes.size(), true);
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t node = 0; node < nodes.size(); ++node) {
      int numLabels = nodes[node].labels.size();
      if (!isStale[node] || numLabels == 1)
        continue;
      isStale[node] = false;
      int best = labels[node];
      Objective least = part(node);
      for (int label = 0; label < numLabels; ++label) {
        labels[node] = label;
        if (Objective sum = part(node); sum < least) {
          least = sum;
          best = label;
          improved = true;
          for (int id : touched[node]) {
            isStale[values[id].def] = true;
            for (const Use &use : values[id].uses)
              isStale[use.node] = true;
          }
        }
      }
      labels[node] = best;
    }
  }
}

FailureOr<Solution> Propagation::solveLayouts() {
  extend();
  while (true) {
    if (failed(enumerate()))
      return failure();
    Solution solution = solve();
    if (!tightenExtents(solution))
      return solution;
  }
}

Solution Propagation::solve() {
  Elimination elimination;
  std::vector<int> variable(nodes.size(), -1);
  Objective fixed;
  for (auto [id, node] : llvm::enumerate(nodes)) {
    if (node.labels.size() == 1) {
      fixed += node.labels.front().cost;
      continue;
    }
    variable[id] = elimination.addVariable(node.labels.size());
    elimination.addTable({variable[id]}, [&](ArrayRef<int> label) {
      return node.labels[label[0]].cost;
    });
  }
  // Most values have at most a few users that may choose: one table. Where
  // there are many, a variable says which layouts of the value are made, and
  // each user asks for one of them.
  constexpr double largestTable = 4096;
  constexpr size_t mostLayouts = 10;
  bool exact = true;
  for (const TensorValue &value : values) {
    if (nodes[value.def].kind == NodeKind::Source)
      continue;
    SmallVector<int> scope; // nodes
    double entries = 1;
    auto add = [&](int node) {
      if (variable[node] >= 0 && !llvm::is_contained(scope, node)) {
        scope.push_back(node);
        entries *= nodes[node].labels.size();
      }
    };
    add(value.def);
    for (const Use &use : value.uses)
      add(use.node);
    auto variables = [&](ArrayRef<int> nodeIds) {
      SmallVector<int> list;
      for (int id : nodeIds)
        list.push_back(variable[id]);
      return list;
    };
    auto labelOf = [&](int node, ArrayRef<int> ids,
                       ArrayRef<int> labels) -> const Label & {
      const auto *it = llvm::find(ids, node);
      return nodes[node].labels[it == ids.end() ? 0 : labels[it - ids.begin()]];
    };
    if (entries <= largestTable) {
      auto cost = [&](ArrayRef<int> labels) {
        SmallVector<LayoutAttr> wanted;
        for (const Use &use : value.uses)
          wanted.push_back(
              labelOf(use.node, scope, labels).operands[use.operand]);
        return objectiveOfBytes(getValueBytes(
            value, labelOf(value.def, scope, labels).results[value.result],
            wanted));
      };
      if (scope.empty())
        fixed += cost({});
      else
        elimination.addTable(variables(scope), cost);
      continue;
    }
    SmallVector<LayoutAttr> layouts, always;
    for (const Use &use : value.uses)
      for (const Label &label : nodes[use.node].labels) {
        LayoutAttr plain = withoutFill(label.operands[use.operand]);
        auto &list = nodes[use.node].labels.size() == 1 ? always : layouts;
        if (!llvm::is_contained(list, plain))
          list.push_back(plain);
      }
    llvm::erase_if(layouts, [&](LayoutAttr layout) {
      return llvm::is_contained(always, layout);
    });
    if (layouts.size() > mostLayouts) {
      // Each user on its own: an upper bound of what they share.
      exact = false;
      for (const Use &use : value.uses) {
        SmallVector<int> pair;
        if (variable[value.def] >= 0)
          pair.push_back(value.def);
        if (variable[use.node] >= 0 && use.node != value.def)
          pair.push_back(use.node);
        elimination.addTable(variables(pair), [&](ArrayRef<int> labels) {
          return objectiveOfBytes(getValueBytes(
              value, labelOf(value.def, pair, labels).results[value.result],
              {labelOf(use.node, pair, labels).operands[use.operand]}));
        });
      }
      continue;
    }
    int made = elimination.addVariable(1 << layouts.size());
    SmallVector<int> defScope;
    if (variable[value.def] >= 0)
      defScope.push_back(value.def);
    SmallVector<int> madeScope = variables(defScope);
    madeScope.push_back(made);
    elimination.addTable(madeScope, [&](ArrayRef<int> labels) {
      SmallVector<LayoutAttr> wanted(always);
      for (auto [i, layout] : llvm::enumerate(layouts))
        if (labels.back() >> i & 1)
          wanted.push_back(layout);
      return objectiveOfBytes(
          getValueBytes(value,
                        labelOf(value.def, defScope, labels.drop_back())
                            .results[value.result],
                        wanted));
    });
    for (const Use &use : value.uses) {
      if (variable[use.node] < 0)
        continue;
      elimination.addTable(
          {variable[use.node], made}, [&](ArrayRef<int> labels) {
            LayoutAttr plain = withoutFill(
                nodes[use.node].labels[labels[0]].operands[use.operand]);
            const auto *it = llvm::find(layouts, plain);
            bool isMade =
                it == layouts.end() || labels[1] >> (it - layouts.begin()) & 1;
            return isMade ? Objective() : Objective::impossible();
          });
    }
  }

  Elimination::Solution found = elimination.solve();
  Solution solution;
  for (size_t id = 0; id < nodes.size(); ++id)
    solution.labels.push_back(variable[id] < 0 ? 0
                                               : found.values[variable[id]]);
  solution.objective = evaluate(solution.labels);
  solution.bound = fixed + found.bound;
  if (solution.objective != solution.bound) {
    // Buckets were cut.
    improve(solution.labels);
    solution.objective = evaluate(solution.labels);
    if (!exact) {
      // What is shared may cost less than the bound: only nothing is certain.
      solution.bound.bytes = 0;
    }
  }
  return solution;
}
