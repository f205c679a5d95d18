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

Solution Solver::solve() {
  Elimination elimination;
  std::vector<int> variable(candidates.size(), -1);
  Objective fixed;
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
  // Most values have few users with more than one candidate: one table covers
  // them all. A value with many such users gets a variable for the set of
  // layouts to which it is resharded, and each user requires one of them.
  constexpr double largestTable = 4096;
  constexpr size_t mostLayouts = 10;
  bool exact = true;
  for (const TensorValue &value : values) {
    if (table.nodes[value.def].kind == NodeKind::Source)
      continue;
    SmallVector<int> scope; // nodes
    double entries = 1;
    auto add = [&](int node) {
      if (variable[node] >= 0 && !llvm::is_contained(scope, node)) {
        scope.push_back(node);
        entries *= candidates[node].size();
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
    auto candidateOf = [&](int node, ArrayRef<int> ids,
                           ArrayRef<int> values) -> const Candidate & {
      const auto *it = llvm::find(ids, node);
      return candidates[node][it == ids.end() ? 0 : values[it - ids.begin()]];
    };
    if (entries <= largestTable) {
      auto cost = [&](ArrayRef<int> values) {
        SmallVector<LayoutAttr> wanted;
        for (const Use &use : value.uses)
          wanted.push_back(
              candidateOf(use.node, scope, values).operands[use.operand]);
        return objectiveOfBytes(getValueBytes(
            value, candidateOf(value.def, scope, values).results[value.result],
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
      for (const Candidate &candidate : candidates[use.node]) {
        LayoutAttr plain = withoutFill(candidate.operands[use.operand]);
        auto &list = candidates[use.node].size() == 1 ? always : layouts;
        if (!llvm::is_contained(list, plain))
          list.push_back(plain);
      }
    llvm::erase_if(layouts, [&](LayoutAttr layout) {
      return llvm::is_contained(always, layout);
    });
    if (layouts.size() > mostLayouts) {
      // Each use is counted alone: an upper bound, since users may share a
      // reshard.
      exact = false;
      for (const Use &use : value.uses) {
        SmallVector<int> pair;
        if (variable[value.def] >= 0)
          pair.push_back(value.def);
        if (variable[use.node] >= 0 && use.node != value.def)
          pair.push_back(use.node);
        elimination.addTable(variables(pair), [&](ArrayRef<int> values) {
          return objectiveOfBytes(getValueBytes(
              value, candidateOf(value.def, pair, values).results[value.result],
              {candidateOf(use.node, pair, values).operands[use.operand]}));
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
    elimination.addTable(madeScope, [&](ArrayRef<int> values) {
      SmallVector<LayoutAttr> wanted(always);
      for (auto [i, layout] : llvm::enumerate(layouts))
        if (values.back() >> i & 1)
          wanted.push_back(layout);
      return objectiveOfBytes(
          getValueBytes(value,
                        candidateOf(value.def, defScope, values.drop_back())
                            .results[value.result],
                        wanted));
    });
    for (const Use &use : value.uses) {
      if (variable[use.node] < 0)
        continue;
      elimination.addTable(
          {variable[use.node], made}, [&](ArrayRef<int> values) {
            LayoutAttr plain = withoutFill(
                candidates[use.node][values[0]].operands[use.operand]);
            const auto *it = llvm::find(layouts, plain);
            bool isMade =
                it == layouts.end() || values[1] >> (it - layouts.begin()) & 1;
            return isMade ? Objective() : Objective::impossible();
          });
    }
  }

  Elimination::Solution found = elimination.solve();
  Solution solution;
  for (size_t id = 0; id < candidates.size(); ++id)
    solution.candidates.push_back(
        variable[id] < 0 ? 0 : found.values[variable[id]]);
  solution.objective = evaluate(solution.candidates);
  solution.bound = fixed + found.bound;
  if (solution.objective != solution.bound) {
    // The elimination was not exact, because it split tables (mini-buckets).
    improve(solution.candidates);
    solution.objective = evaluate(solution.candidates);
    if (!exact) {
      // Users that share a reshard may cost less than the bound, which counts
      // one reshard for each of them. So the only certain bound is 0.
      solution.bound.bytes = 0;
    }
  }
  return solution;
}
