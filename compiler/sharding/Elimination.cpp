// Dead-end elimination, then variable elimination with mini-buckets.

#include "compiler/sharding/Elimination.h"

#include <array>
#include <list>
#include <optional>
#include <set>

#include "llvm/ADT/STLExtras.h"

using namespace polyrank::sharding;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

/// An objective without the levels of violations that nothing uses: fewer
/// columns make tables several times smaller. Compared lexicographically.
template <int columns>
struct Cost : std::array<int64_t, columns> {
  Cost &operator+=(const Cost &other) {
    for (int i = 0; i < columns; ++i)
      (*this)[i] += other[i];
    return *this;
  }
  friend Cost operator-(Cost left, const Cost &right) {
    for (int i = 0; i < columns; ++i)
      left[i] -= right[i];
    return left;
  }
};

/// Maps the columns of a Cost to the numbers of an Objective.
class Columns {
public:
  /// Leaves out levels of violations that are 0 in all entries of `tables`.
  template <typename Tables>
  explicit Columns(const Tables &tables) {
    std::array<bool, maxLevels> used{};
    for (const auto &table : tables)
      for (const Objective &entry : table.entries)
        for (int level = 0; level < maxLevels; ++level)
          used[level] |= entry.violations[level] != 0;
    for (int level = 0; level < maxLevels; ++level)
      if (used[level])
        levels.push_back(level);
  }
  int size() const { return static_cast<int>(levels.size()) + 4; }

  template <int columns>
  Cost<columns> pack(const Objective &objective) const {
    Cost<columns> cost{};
    int column = 0;
    for (int level : levels)
      cost[column++] = objective.violations[level];
    for (int64_t value :
         {objective.bytes, objective.flops, objective.passes, objective.tie})
      cost[column++] = value;
    return cost;
  }
  template <int columns>
  Objective unpack(const Cost<columns> &cost) const {
    Objective objective;
    int column = 0;
    for (int level : levels)
      objective.violations[level] = cost[column++];
    for (int64_t *value : {&objective.bytes, &objective.flops,
                           &objective.passes, &objective.tie})
      *value = cost[column++];
    return objective;
  }

private:
  SmallVector<int> levels;
};

template <int columns>
class Solver {
public:
  struct Table {
    SmallVector<int, 4> scope;          // ascending
    std::vector<Cost<columns>> entries; // row-major
  };

  explicit Solver(ArrayRef<int> sizes) : sizes(sizes.begin(), sizes.end()) {
    for (int size : sizes) {
      auto values = llvm::seq(size);
      alive.emplace_back(values.begin(), values.end());
    }
  }
  Table &add(Table table) { return tables.emplace_back(std::move(table)); }
  /// Removes values that are no better than another value whatever the other
  /// variables are (Goldstein 1994), until there are none.
  void eliminateDeadEnds();
  /// The best values, in their original numbering, and the bound.
  std::pair<std::vector<int>, Cost<columns>> solve(size_t limit) const;

private:
  bool isDeadEnd(ArrayRef<Table *> tables, int variable, int value,
                 int other) const;
  void remove(ArrayRef<Table *> tables, int variable,
              const std::vector<bool> &isDead);
  size_t index(const Table &table, ArrayRef<int> values) const;
  size_t getStride(const Table &table, int variable) const;
  Table minimize(ArrayRef<const Table *> bucket, int variable) const;

  std::vector<int> sizes;
  std::vector<Table> tables;
  /// Per variable: the original numbers of its remaining values.
  std::vector<std::vector<int>> alive;
};

} // namespace

int Elimination::addVariable(int size) {
  sizes.push_back(size);
  return sizes.size() - 1;
}

void Elimination::addTable(ArrayRef<int> scope,
                           llvm::function_ref<Objective(ArrayRef<int>)> cost) {
  Table table;
  table.scope.assign(scope.begin(), scope.end());
  llvm::sort(table.scope);
  // Assignments are enumerated in ascending scope; `cost` gets them in the
  // order of `scope`.
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

template <int columns>
size_t Solver<columns>::index(const Table &table, ArrayRef<int> values) const {
  size_t index = 0;
  for (int variable : table.scope)
    index = index * sizes[variable] + values[variable];
  return index;
}

template <int columns>
typename Solver<columns>::Table
Solver<columns>::minimize(ArrayRef<const Table *> bucket, int variable) const {
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
  // The last variable of the scope is the innermost loop.
  size_t numOuter = result.scope.empty() ? 0 : result.scope.size() - 1;
  size_t inner = result.scope.empty() ? 1 : sizes[result.scope.back()];
  size_t numValues = sizes[variable];
  struct Operand {
    const Cost<columns> *entries;
    SmallVector<size_t, 8> outer; // strides
    size_t inner = 0, value = 0;
  };
  std::vector<Operand> operands;
  for (const Table *table : bucket) {
    Operand &operand = operands.emplace_back();
    operand.entries = table->entries.data();
    operand.outer.assign(numOuter, 0);
    size_t stride = 1;
    for (int other : llvm::reverse(table->scope)) {
      size_t position = llvm::find(result.scope, other) - result.scope.begin();
      (other == variable     ? operand.value
       : position < numOuter ? operand.outer[position]
                             : operand.inner) = stride;
      stride *= sizes[other];
    }
  }
  std::vector<Cost<columns>> sums(inner);
  SmallVector<int> values(numOuter, 0);
  for (size_t start = 0; start < count; start += inner) {
    Cost<columns> *best = &result.entries[start];
    for (size_t value = 0; value < numValues; ++value) {
      for (auto [number, operand] : llvm::enumerate(operands)) {
        const Cost<columns> *entry = operand.entries + value * operand.value;
        for (size_t i = 0; i < inner; ++i, entry += operand.inner) {
          if (number == 0)
            sums[i] = *entry;
          else
            sums[i] += *entry;
        }
      }
      for (size_t i = 0; i < inner; ++i)
        if (value == 0 || sums[i] < best[i])
          best[i] = sums[i];
    }
    for (size_t i = numOuter; i-- > 0;) {
      int size = sizes[result.scope[i]];
      bool wraps = ++values[i] == size;
      for (Operand &operand : operands)
        operand.entries +=
            operand.outer[i] - (wraps ? operand.outer[i] * size : 0);
      if (!wraps)
        break;
      values[i] = 0;
    }
  }
  return result;
}

template <int columns>
size_t Solver<columns>::getStride(const Table &table, int variable) const {
  size_t stride = 1;
  for (int other : llvm::reverse(table.scope)) {
    if (other == variable)
      break;
    stride *= sizes[other];
  }
  return stride;
}

/// Returns true if no sum grows when `other` replaces `value`: the largest
/// differences of the tables add up to at most 0. Of two equal values the later
/// one is dead.
template <int columns>
bool Solver<columns>::isDeadEnd(ArrayRef<Table *> mentioning, int variable,
                                int value, int other) const {
  Cost<columns> sum{};
  for (const Table *table : mentioning) {
    size_t stride = getStride(*table, variable);
    size_t block = stride * sizes[variable];
    std::optional<Cost<columns>> largest;
    for (size_t start = 0; start < table->entries.size(); start += block)
      for (size_t i = start; i < start + stride; ++i) {
        auto difference = table->entries[i + other * stride] -
                          table->entries[i + value * stride];
        if (!largest || *largest < difference)
          largest = difference;
      }
    sum += *largest;
  }
  Cost<columns> zero{};
  return sum < zero || (sum == zero && other < value);
}

template <int columns>
void Solver<columns>::remove(ArrayRef<Table *> mentioning, int variable,
                             const std::vector<bool> &isDead) {
  for (Table *table : mentioning) {
    size_t stride = getStride(*table, variable);
    size_t kept = 0;
    for (size_t i = 0; i < table->entries.size(); ++i)
      if (!isDead[i / stride % sizes[variable]])
        table->entries[kept++] = table->entries[i];
    table->entries.resize(kept);
  }
  std::vector<int> left;
  for (int value = 0; value < sizes[variable]; ++value)
    if (!isDead[value])
      left.push_back(alive[variable][value]);
  alive[variable] = std::move(left);
  sizes[variable] = alive[variable].size();
}

template <int columns>
void Solver<columns>::eliminateDeadEnds() {
  std::vector<SmallVector<Table *>> mentions(sizes.size());
  for (Table &table : tables)
    for (int variable : table.scope)
      mentions[variable].push_back(&table);
  // All pairs of values are compared, which costs more than it saves if there
  // are many.
  constexpr int mostCompared = 64;
  std::vector<bool> isStale(sizes.size(), true);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t variable = 0; variable < sizes.size(); ++variable) {
      if (!isStale[variable] || sizes[variable] > mostCompared)
        continue;
      isStale[variable] = false;
      std::vector<bool> isDead(sizes[variable]);
      for (int value = 0; value < sizes[variable]; ++value)
        for (int other = 0; other < sizes[variable] && !isDead[value]; ++other)
          isDead[value] = other != value && !isDead[other] &&
                          isDeadEnd(mentions[variable], variable, value, other);
      if (!llvm::is_contained(isDead, true))
        continue;
      remove(mentions[variable], variable, isDead);
      changed = true;
      for (const Table *table : mentions[variable])
        for (int other : table->scope)
          isStale[other] = true;
    }
  }
}

template <int columns>
std::pair<std::vector<int>, Cost<columns>>
Solver<columns>::solve(size_t limit) const {
  std::list<Table> made; // stable addresses
  std::vector<SmallVector<const Table *>> mentions(sizes.size());
  Cost<columns> bound{};
  std::vector<int> values(sizes.size());
  auto add = [&](const Table &table) {
    if (table.scope.empty())
      bound += table.entries.front();
    for (int variable : table.scope)
      mentions[variable].push_back(&table);
  };
  for (const Table &table : tables)
    add(table);

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
  std::set<std::pair<double, int>> left; // cheapest first
  for (size_t v = 0; v < sizes.size(); ++v) {
    cost[v] = resultSize(mentions[v], v);
    left.insert({cost[v], v});
  }

  std::vector<std::pair<int, SmallVector<const Table *>>> buckets;
  while (!left.empty()) {
    int variable = left.begin()->second;
    left.erase(left.begin());
    SmallVector<const Table *> bucket = std::move(mentions[variable]);
    // The bucket is cut into parts whose results stay below the limit. If one
    // part is enough, this step is exact.
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
    for (int other : changed) {
      left.erase({cost[other], other});
      cost[other] = resultSize(mentions[other], other);
      left.insert({cost[other], other});
    }
    buckets.push_back({variable, std::move(bucket)});
  }

  for (auto &[variable, bucket] : llvm::reverse(buckets)) {
    Cost<columns> best{};
    int bestValue = 0;
    for (int value = 0; value < sizes[variable]; ++value) {
      values[variable] = value;
      Cost<columns> sum{};
      for (const Table *table : bucket)
        sum += table->entries[index(*table, values)];
      if (value == 0 || sum < best) {
        best = sum;
        bestValue = value;
      }
    }
    values[variable] = bestValue;
  }
  for (auto [variable, value] : llvm::enumerate(values))
    value = alive[variable][value];
  return {values, bound};
}

Elimination::Solution Elimination::solve(size_t limit) const {
  Columns used(tables);
  auto solveIn = [&]<int columns>(std::integral_constant<int, columns>) {
    Solver<columns> solver(sizes);
    for (const Table &table : tables) {
      auto &packed = solver.add({table.scope, {}});
      packed.entries.reserve(table.entries.size());
      for (const Objective &entry : table.entries)
        packed.entries.push_back(used.pack<columns>(entry));
    }
    solver.eliminateDeadEnds();
    auto [values, bound] = solver.solve(limit);
    return Solution{std::move(values), used.unpack<columns>(bound)};
  };
  if (used.size() <= 5)
    return solveIn(std::integral_constant<int, 5>());
  if (used.size() <= 8)
    return solveIn(std::integral_constant<int, 8>());
  return solveIn(std::integral_constant<int, maxLevels + 4>());
}
