// Variable elimination with mini-buckets.

#include "compiler/sharding/Elimination.h"

#include <list>

#include "llvm/ADT/STLExtras.h"

using namespace polyrank::sharding;
using llvm::ArrayRef;
using llvm::SmallVector;

int Elimination::addVariable(int size) {
  sizes.push_back(size);
  return sizes.size() - 1;
}

void Elimination::addTable(ArrayRef<int> scope,
                           llvm::function_ref<Objective(ArrayRef<int>)> cost) {
  Table table;
  table.scope.assign(scope.begin(), scope.end());
  llvm::sort(table.scope);
  // Assignments are counted in ascending scope and handed over in the given.
  SmallVector<size_t> position;
  for (int variable : scope)
    position.push_back(llvm::find(table.scope, variable) - table.scope.begin());
  size_t count = 1;
  for (int variable : table.scope)
    count *= sizes[variable];
  SmallVector<int> ascending(scope.size()), given(scope.size());
  for (size_t entry = 0; entry < count; ++entry) {
    size_t rest = entry;
    for (size_t i = scope.size(); i-- > 0;) {
      ascending[i] = rest % sizes[table.scope[i]];
      rest /= sizes[table.scope[i]];
    }
    for (size_t i = 0; i < scope.size(); ++i)
      given[i] = ascending[position[i]];
    table.entries.push_back(cost(given));
  }
  tables.push_back(std::move(table));
}

size_t Elimination::index(const Table &table, ArrayRef<int> values) const {
  size_t index = 0;
  for (int variable : table.scope)
    index = index * sizes[variable] + values[variable];
  return index;
}

Elimination::Table Elimination::minimize(ArrayRef<const Table *> bucket,
                                         int variable) const {
  Table result;
  for (const Table *table : bucket)
    for (int other : table->scope)
      if (other != variable && !llvm::is_contained(result.scope, other))
        result.scope.push_back(other);
  llvm::sort(result.scope);
  size_t count = 1;
  for (int other : result.scope)
    count *= sizes[other];
  result.entries.resize(count);
  // Strides of each table along the result's scope and along the variable.
  size_t numTables = bucket.size(), numScope = result.scope.size();
  std::vector<size_t> strides(numTables * (numScope + 1));
  for (auto [t, table] : llvm::enumerate(bucket)) {
    size_t stride = 1;
    for (size_t i = table->scope.size(); i-- > 0;) {
      int other = table->scope[i];
      size_t position = other == variable ? numScope
                                          : llvm::find(result.scope, other) -
                                                result.scope.begin();
      strides[t * (numScope + 1) + position] = stride;
      stride *= sizes[other];
    }
  }
  SmallVector<int> values(numScope, 0);
  SmallVector<size_t> offsets(numTables, 0);
  for (size_t entry = 0; entry < count; ++entry) {
    for (int value = 0; value < sizes[variable]; ++value) {
      Objective sum;
      for (size_t t = 0; t < numTables; ++t)
        sum +=
            bucket[t]->entries[offsets[t] +
                               value * strides[t * (numScope + 1) + numScope]];
      if (value == 0 || sum < result.entries[entry])
        result.entries[entry] = sum;
    }
    for (size_t i = numScope; i-- > 0;) {
      bool wraps = ++values[i] == sizes[result.scope[i]];
      for (size_t t = 0; t < numTables; ++t) {
        size_t stride = strides[t * (numScope + 1) + i];
        offsets[t] += stride;
        if (wraps)
          offsets[t] -= stride * sizes[result.scope[i]];
      }
      if (!wraps)
        break;
      values[i] = 0;
    }
  }
  return result;
}

Elimination::Solution Elimination::solve(size_t limit) const {
  std::list<Table> made; // stable addresses
  std::vector<SmallVector<const Table *>> mentions(sizes.size());
  Solution solution;
  solution.values.assign(sizes.size(), 0);
  auto add = [&](const Table &table) {
    if (table.scope.empty())
      solution.bound += table.entries.front();
    for (int variable : table.scope)
      mentions[variable].push_back(&table);
  };
  for (const Table &table : tables)
    add(table);

  std::vector<bool> gone(sizes.size());
  auto resultSize = [&](ArrayRef<const Table *> bucket, int variable) {
    llvm::SmallDenseSet<int> seen;
    double size = 1;
    for (const Table *table : bucket)
      for (int other : table->scope)
        if (other != variable && seen.insert(other).second)
          size *= sizes[other];
    return size;
  };
  std::vector<double> cost(sizes.size());
  for (size_t v = 0; v < sizes.size(); ++v)
    cost[v] = resultSize(mentions[v], v);

  std::vector<std::pair<int, SmallVector<const Table *>>> buckets;
  for (size_t step = 0; step < sizes.size(); ++step) {
    int variable = -1;
    for (size_t v = 0; v < sizes.size(); ++v)
      if (!gone[v] && (variable < 0 || cost[v] < cost[variable]))
        variable = v;
    gone[variable] = true;
    SmallVector<const Table *> bucket = std::move(mentions[variable]);
    // Parts whose results stay below the limit; one part in the exact case.
    SmallVector<SmallVector<const Table *>> parts;
    for (const Table *table : bucket) {
      auto fits = [&](const SmallVector<const Table *> &part) {
        SmallVector<const Table *> more(part);
        more.push_back(table);
        return resultSize(more, variable) <= static_cast<double>(limit);
      };
      auto *part = llvm::find_if(parts, fits);
      if (part == parts.end())
        part = &parts.emplace_back();
      part->push_back(table);
    }
    llvm::SmallDenseSet<int> changed;
    for (const Table *table : bucket)
      for (int other : table->scope) {
        if (other == variable)
          continue;
        llvm::erase(mentions[other], table);
        changed.insert(other);
      }
    for (const auto &part : parts)
      add(made.emplace_back(minimize(part, variable)));
    for (int other : changed)
      cost[other] = resultSize(mentions[other], other);
    buckets.push_back({variable, std::move(bucket)});
  }

  for (auto &[variable, bucket] : llvm::reverse(buckets)) {
    Objective best;
    int bestValue = 0;
    for (int value = 0; value < sizes[variable]; ++value) {
      solution.values[variable] = value;
      Objective sum;
      for (const Table *table : bucket)
        sum += table->entries[index(*table, solution.values)];
      if (value == 0 || sum < best) {
        best = sum;
        bestValue = value;
      }
    }
    solution.values[variable] = bestValue;
  }
  return solution;
}
