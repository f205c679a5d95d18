// Chooses one candidate per node so that the objective is least.

#include "compiler/sharding/Solution.h"

#include "compiler/sharding/Elimination.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static Objective objectiveOfBytes(int64_t bytes) {
  if (bytes < 0)
    return Objective::impossible();
  Objective objective;
  objective.bytes = bytes;
  return objective;
}

int64_t Solver::getValueBytes(const TensorValue &value, LayoutAttr from,
                              ArrayRef<LayoutAttr> wanted) {
  // Each user of a source gets its own copy, in the layout that it wants.
  return table.nodes[value.def].kind == NodeKind::Source
             ? 0
             : costs.getValueBytes(value, from, wanted);
}

Objective Solver::evaluateValue(const TensorValue &value,
                                ArrayRef<int> chosen) {
  SmallVector<LayoutAttr> wanted;
  for (const Use &use : value.uses)
    wanted.push_back(
        candidates[use.node][chosen[use.node]].operands[use.operand]);
  LayoutAttr from =
      candidates[value.def][chosen[value.def]].results[value.result];
  return objectiveOfBytes(getValueBytes(value, from, wanted));
}

Objective Solver::evaluate(ArrayRef<int> chosen) {
  Objective sum;
  for (const Objective &of : evaluateNodes(chosen))
    sum += of;
  return sum;
}

std::vector<Objective> Solver::evaluateNodes(ArrayRef<int> chosen) {
  std::vector<Objective> objectives;
  for (auto [list, candidate] : llvm::zip_equal(candidates, chosen))
    objectives.push_back(list[candidate].cost);
  for (const TensorValue &value : values)
    objectives[value.def] += evaluateValue(value, chosen);
  return objectives;
}

void Solver::improve(std::vector<int> &chosen) {
  // For each node, the values that it defines or uses: their cost depends on
  // its candidate.
  std::vector<SmallVector<int>> touched(candidates.size());
  for (auto [id, value] : llvm::enumerate(values)) {
    touched[value.def].push_back(id);
    for (const Use &use : value.uses)
      if (!llvm::is_contained(touched[use.node], static_cast<int>(id)))
        touched[use.node].push_back(id);
  }
  auto part = [&](size_t node) {
    Objective sum = candidates[node][chosen[node]].cost;
    for (int id : touched[node])
      sum += evaluateValue(values[id], chosen);
    return sum;
  };
  std::vector<bool> isStale(candidates.size(), true);
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t node = 0; node < candidates.size(); ++node) {
      int numCandidates = candidates[node].size();
      if (!isStale[node] || numCandidates == 1)
        continue;
      isStale[node] = false;
      int best = chosen[node];
      Objective least = part(node);
      for (int candidate = 0; candidate < numCandidates; ++candidate) {
        chosen[node] = candidate;
        if (Objective sum = part(node); sum < least) {
          least = sum;
          best = candidate;
          improved = true;
          for (int id : touched[node]) {
            isStale[values[id].def] = true;
            for (const Use &use : values[id].uses)
              isStale[use.node] = true;
          }
        }
      }
      chosen[node] = best;
    }
  }
}

namespace {
/// Most values have few users with more than one candidate: one table of at
/// most this many entries covers them all.
constexpr double largestTable = 4096;
/// A value with more users gets a variable for the set of layouts to which it
/// is resharded, of at most this many.
constexpr size_t mostLayouts = 10;
} // namespace

/// Writes the objective as a sum of tables over variables, the candidates of
/// nodes that have more than one, for the elimination.
class Solver::Tables {
public:
  explicit Tables(Solver &solver)
      : solver(solver), candidates(solver.candidates),
        variable(candidates.size(), -1) {
    addNodes();
    for (const TensorValue &value : solver.values)
      if (solver.table.nodes[value.def].kind != NodeKind::Source)
        addValue(value);
  }

  Elimination elimination;
  /// The objective of what has no choice.
  Objective fixed;
  /// False if a user's share of a value is counted alone, though users may
  /// share a reshard.
  bool isExact = true;
  /// The number of the candidate that each node has in a solution.
  std::vector<int> choose(ArrayRef<int> values) const {
    std::vector<int> chosen;
    for (int id : variable)
      chosen.push_back(id < 0 ? 0 : values[id]);
    return chosen;
  }

private:
  using Nodes = SmallVector<int>;

  void addNodes();
  void addValue(const TensorValue &value);
  /// One table over all candidates of the value's producer and users.
  void addWhole(const TensorValue &value, const Nodes &nodes);
  /// A table for each user by itself.
  void addSeparately(const TensorValue &value);
  /// A variable for the set of `layouts` to which the value is resharded
  /// besides those that are `always` wanted; each user requires one of them.
  void addSetOfLayouts(const TensorValue &value, ArrayRef<LayoutAttr> layouts,
                       ArrayRef<LayoutAttr> always);
  void addNode(Nodes &nodes, int node) {
    if (variable[node] >= 0 && !llvm::is_contained(nodes, node))
      nodes.push_back(node);
  }
  Nodes variablesOf(ArrayRef<int> nodes) const {
    return llvm::map_to_vector(nodes, [&](int node) { return variable[node]; });
  }
  /// The candidate of a node, where `values` are those of `nodes`.
  const Candidate &candidateOf(int node, ArrayRef<int> nodes,
                               ArrayRef<int> values) const {
    const auto *it = llvm::find(nodes, node);
    return candidates[node][it == nodes.end() ? 0 : values[it - nodes.begin()]];
  }
  Objective objectiveOf(const TensorValue &value, LayoutAttr from,
                        ArrayRef<LayoutAttr> wanted) {
    return objectiveOfBytes(solver.getValueBytes(value, from, wanted));
  }

  Solver &solver;
  const Candidates &candidates;
  /// Per node: its variable, or -1 if it has one candidate.
  std::vector<int> variable;
};

void Solver::Tables::addNodes() {
  for (size_t id = 0; id < candidates.size(); ++id) {
    const SmallVector<Candidate, 0> &list = candidates[id];
    if (list.size() == 1) {
      fixed += list.front().cost;
      continue;
    }
    variable[id] = elimination.addVariable(list.size());
    elimination.addTable({variable[id]}, [&](ArrayRef<int> candidate) {
      return list[candidate[0]].cost;
    });
  }
}

void Solver::Tables::addValue(const TensorValue &value) {
  Nodes nodes;
  addNode(nodes, value.def);
  for (const Use &use : value.uses)
    addNode(nodes, use.node);
  double entries = 1;
  for (int node : nodes)
    entries *= static_cast<double>(candidates[node].size());
  if (entries <= largestTable)
    return addWhole(value, nodes);
  SmallVector<LayoutAttr> layouts, always;
  for (const Use &use : value.uses)
    for (const Candidate &candidate : candidates[use.node]) {
      LayoutAttr plain = withoutFill(candidate.operands[use.operand]);
      auto &list = candidates[use.node].size() == 1 ? always : layouts;
      if (!llvm::is_contained(list, plain))
        list.push_back(plain);
    }
  llvm::erase_if(layouts, [&](LayoutAttr layout) {
    return llvm::is_contained(always, layout);
  });
  if (layouts.size() > mostLayouts)
    return addSeparately(value);
  addSetOfLayouts(value, layouts, always);
}

void Solver::Tables::addWhole(const TensorValue &value, const Nodes &nodes) {
  auto cost = [&](ArrayRef<int> values) {
    SmallVector<LayoutAttr> wanted;
    for (const Use &use : value.uses)
      wanted.push_back(
          candidateOf(use.node, nodes, values).operands[use.operand]);
    return objectiveOf(
        value, candidateOf(value.def, nodes, values).results[value.result],
        wanted);
  };
  if (nodes.empty())
    fixed += cost({});
  else
    elimination.addTable(variablesOf(nodes), cost);
}

void Solver::Tables::addSeparately(const TensorValue &value) {
  isExact = false;
  for (const Use &use : value.uses) {
    Nodes pair;
    addNode(pair, value.def);
    addNode(pair, use.node);
    elimination.addTable(variablesOf(pair), [&](ArrayRef<int> values) {
      return objectiveOf(
          value, candidateOf(value.def, pair, values).results[value.result],
          {candidateOf(use.node, pair, values).operands[use.operand]});
    });
  }
}

void Solver::Tables::addSetOfLayouts(const TensorValue &value,
                                     ArrayRef<LayoutAttr> layouts,
                                     ArrayRef<LayoutAttr> always) {
  int made = elimination.addVariable(1 << layouts.size());
  Nodes producer;
  addNode(producer, value.def);
  Nodes scope = variablesOf(producer);
  scope.push_back(made);
  elimination.addTable(scope, [&](ArrayRef<int> values) {
    SmallVector<LayoutAttr> wanted(always);
    for (auto [i, layout] : llvm::enumerate(layouts))
      if (values.back() >> i & 1)
        wanted.push_back(layout);
    return objectiveOf(value,
                       candidateOf(value.def, producer, values.drop_back())
                           .results[value.result],
                       wanted);
  });
  for (const Use &use : value.uses) {
    if (variable[use.node] < 0)
      continue;
    elimination.addTable({variable[use.node], made}, [&](ArrayRef<int> values) {
      LayoutAttr plain =
          withoutFill(candidates[use.node][values[0]].operands[use.operand]);
      const auto *it = llvm::find(layouts, plain);
      bool isMade =
          it == layouts.end() || values[1] >> (it - layouts.begin()) & 1;
      return isMade ? Objective() : Objective::impossible();
    });
  }
}

Solution Solver::solve() {
  Tables tables(*this);
  Elimination::Solution found = tables.elimination.solve();
  Solution solution;
  solution.candidates = tables.choose(found.values);
  solution.objective = evaluate(solution.candidates);
  solution.bound = tables.fixed + found.bound;
  if (solution.objective != solution.bound) {
    // The elimination was not exact, because it split tables (mini-buckets).
    improve(solution.candidates);
    solution.objective = evaluate(solution.candidates);
    if (!tables.isExact) {
      // Users that share a reshard may cost less than the bound, which counts
      // one reshard for each of them. So the only certain bound is 0.
      solution.bound.bytes = 0;
    }
  }
  return solution;
}
