// Solves the stage assignment by dynamic programming over the places at which
// an order of the ops can be cut.

#include "compiler/stages/StageCut.h"

#include <cmath>
#include <numeric>
#include <set>

#include "compiler/stages/CutChain.h"

using namespace polyrank::stages;

namespace {

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();

/// For each stage, the first and the last place where it can end: after the ops
/// that the user put on it or on earlier stages, before those on later stages,
/// with at least one op left for each stage on both sides.
struct Ends {
  std::vector<int> first, last;
};

std::variant<Ends, TooFewOps> findEnds(const CutProblem &problem) {
  const int n = static_cast<int>(problem.ops.size()), stages = problem.stages;
  Ends ends{std::vector<int>(stages, 0), std::vector<int>(stages, n)};
  for (int op = n - 1; op >= 0; --op)
    if (int fixed = problem.ops[op].fixed; fixed >= 0) {
      ends.first[fixed] = std::max(ends.first[fixed], op + 1);
      if (fixed > 0)
        ends.last[fixed - 1] = op;
    }
  ends.first.back() = n;
  for (int s = stages - 1; s > 0; --s)
    ends.last[s - 1] = std::min(ends.last[s - 1], ends.last[s]);
  TooFewOps range;
  for (int s = 0, earliest = 0; s < stages; ++s) {
    if (ends.first[s] > earliest && s < stages - 1) {
      range.first = s + 1;
      range.after = ends.first[s] - 1;
    }
    earliest = std::max(ends.first[s], earliest + 1);
    if (earliest > ends.last[s]) {
      bool isEnd = ends.last[s] == n;
      range.before = isEnd ? -1 : ends.last[s];
      range.last = isEnd ? stages - 1 : problem.ops[range.before].fixed - 1;
      range.ops = ends.last[s] - range.after - 1;
      return range;
    }
    ends.first[s] = earliest;
  }
  for (int s = stages - 1; s > 0; --s)
    ends.last[s - 1] = std::min(ends.last[s - 1], ends.last[s] - 1);
  return ends;
}

/// Chooses the places that are considered as cuts: the first place where each
/// stage can end and, in each of `count` parts of the order with equal shares
/// (`getShare`), the place where the fewest bytes cross.
std::vector<int> choosePlaces(const CutProblem &problem, const Ends &ends,
                              int count) {
  const int n = static_cast<int>(problem.ops.size());
  std::vector<int> last(n, -1);
  for (int op = 0; op < n; ++op)
    for (int operand : problem.ops[op].operands)
      last[operand] = op;
  std::vector<int64_t> crossing(n + 1);
  for (int op = 0; op < n; ++op)
    if (last[op] > op) {
      crossing[op + 1] += problem.ops[op].bytes;
      if (last[op] < n)
        crossing[last[op] + 1] -= problem.ops[op].bytes;
    }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  double total = 1;
  for (const CutOp &op : problem.ops)
    total += static_cast<double>(op.time);
  // Half of an op's share is its share of the time, half is 1/n.
  auto getShare = [&](int op) {
    return 0.5 / n + 0.5 * static_cast<double>(problem.ops[op].time) / total;
  };
  std::set<int> places{0, n};
  places.insert(ends.first.begin(), ends.first.end());
  double share = 0;
  int best = -1, part = 0;
  for (int place = 1; place < n; ++place) {
    share += getShare(place - 1);
    if (static_cast<int>(share * count) > part) {
      part = static_cast<int>(share * count);
      if (best > 0)
        places.insert(best);
      best = -1;
    }
    if (best < 0 || crossing[place] < crossing[best])
      best = place;
  }
  if (best > 0)
    places.insert(best);
  return {places.begin(), places.end()};
}

/// Finds the best cut of a chain. Entry (place, count) of a table describes the
/// best division of the blocks before `place` into `count` stages.
class Solver {
public:
  Solver(const CutProblem &problem, const CutChain &chain, const Ends &ends)
      : problem(problem), chain(chain), ends(ends), stages(problem.stages),
        width(problem.stages + 1), counts(chain.size() + 1) {}

  /// The approximate number of steps of a search.
  int64_t getWork(int64_t limit);
  /// The smallest time of the slowest stage if no stage takes longer than
  /// `limit`; `unknown` if that is impossible.
  int64_t findTime(int64_t limit);
  /// The best cut whose stages take at most `time`, which must be possible.
  Cut findCut(int64_t time);
  /// The number of candidate stages that the searches have examined.
  int64_t countVisited() const { return visited; }

private:
  /// A range of stage counts; empty if first > last.
  struct Counts {
    int first = 1, last = 0;
  };
  /// Computes how many stages may lie before each place if none takes longer
  /// than `limit`.
  void countStages(int64_t limit);
  size_t at(int place, int count) const {
    return static_cast<size_t>(place) * width + count;
  }
  /// Visits the candidates for the last of `count` stages before `end`.
  template <typename Visit>
  void visitLastStages(int end, int64_t limit, Visit visit) {
    const Counts &here = counts[end];
    if (here.first > here.last)
      return;
    chain.visitIntervals(end, limit, [&](const CutChain::Interval &interval) {
      ++visited;
      if (interval.time > limit)
        return;
      const Counts &before = counts[interval.begin];
      int last = std::min(here.last, before.last + 1);
      for (int count = std::max(here.first, before.first + 1); count <= last;
           ++count)
        visit(interval, count);
    });
  }

  const CutProblem &problem;
  const CutChain &chain;
  const Ends &ends;
  int stages, width;
  std::vector<Counts> counts;
  int64_t visited = 0;
};

void Solver::countStages(int64_t limit) {
  int64_t total = chain.getTimeBefore(chain.size());
  limit = std::max<int64_t>(limit, 1);
  auto needed = [&](int64_t time) {
    return static_cast<int>(
        std::min<int64_t>(time / limit + (time % limit != 0), stages + 1));
  };
  // The stages that can end at a place have consecutive numbers.
  int first = 0, last = -1;
  for (int place = 0; place <= chain.size(); ++place) {
    int op = chain.getPlace(place);
    while (first < stages && ends.last[first] < op)
      ++first;
    while (last + 1 < stages && ends.first[last + 1] <= op)
      ++last;
    int64_t time = chain.getTimeBefore(place);
    counts[place] = {std::max(first + 1, needed(time)),
                     std::min(last + 1, stages - needed(total - time))};
  }
  counts[0] = {0, 0};
}

int64_t Solver::getWork(int64_t limit) {
  countStages(limit);
  int64_t work = static_cast<int64_t>(chain.size()) * width;
  for (int place = 1; place <= chain.size(); ++place)
    if (counts[place].first <= counts[place].last)
      work += chain.countIntervals(place, limit) *
              (4 + counts[place].last - counts[place].first);
  return work;
}

int64_t Solver::findTime(int64_t limit) {
  countStages(limit);
  std::vector<int64_t> times(at(chain.size() + 1, 0), unknown);
  times[0] = 0;
  for (int end = 1; end <= chain.size(); ++end)
    visitLastStages(
        end, limit, [&](const CutChain::Interval &interval, int count) {
          int64_t &best = times[at(end, count)];
          best = std::min(best, std::max(times[at(interval.begin, count - 1)],
                                         interval.time));
        });
  return times[at(chain.size(), stages)];
}

Cut Solver::findCut(int64_t time) {
  countStages(time);
  struct Best {
    int64_t bytes = unknown, memory = unknown;
    int begin = -1;
  };
  std::vector<Best> table(at(chain.size() + 1, 0));
  table[0] = {0, 0, -1};
  for (int end = 1; end <= chain.size(); ++end)
    visitLastStages(
        end, time, [&](const CutChain::Interval &interval, int count) {
          const Best &before = table[at(interval.begin, count - 1)];
          if (before.bytes == unknown)
            return;
          Best &best = table[at(end, count)];
          int64_t bytes = before.bytes + interval.received;
          if (bytes > best.bytes)
            return;
          int64_t memory = std::max(
              before.memory,
              interval.parameters + interval.kept * problem.live[count - 1]);
          if (bytes < best.bytes || memory < best.memory)
            best = {bytes, memory, interval.begin};
        });
  Cut cut;
  const Best &best = table[at(chain.size(), stages)];
  cut.objective = {time, best.bytes, best.memory};
  cut.ends.resize(stages);
  int place = chain.size();
  for (int count = stages; count > 0; --count) {
    cut.ends[count - 1] = chain.getPlace(place);
    place = table[at(place, count)].begin;
  }
  return cut;
}

int64_t getBound(const CutProblem &problem) {
  int64_t total = 0, bound = 0;
  std::vector<int64_t> fixed(problem.stages);
  for (const CutOp &op : problem.ops) {
    total += op.time;
    bound = std::max(bound, op.time);
    if (op.fixed >= 0)
      bound = std::max(bound, fixed[op.fixed] += op.time);
  }
  return std::max(bound,
                  total / problem.stages + (total % problem.stages != 0));
}

} // namespace

std::variant<Cut, TooFewOps>
polyrank::stages::cutInOrder(const CutProblem &problem) {
  const int n = static_cast<int>(problem.ops.size());
  auto found = findEnds(problem);
  if (auto *few = std::get_if<TooFewOps>(&found))
    return *few;
  const Ends &ends = std::get<Ends>(found);
  std::vector<int> places(n + 1);
  std::iota(places.begin(), places.end(), 0);
  const int64_t bound = getBound(problem);
  const int64_t base = std::max<int64_t>(bound, 1);
  // A low limit on the time of a stage rules out most cuts immediately. It is
  // raised until some cut meets it; the best of these is the best of all.
  int64_t excess = base / 64 + 1;
  int wanted = n;
  const int fewest = 2 * problem.stages;
  int64_t visited = 0;
  while (true) {
    CutChain chain(problem, places);
    Solver solver(problem, chain, ends);
    int64_t work = solver.getWork(base + excess);
    if (work > problem.budget && wanted > fewest) {
      double share = 0.9 * std::sqrt(static_cast<double>(problem.budget) /
                                     static_cast<double>(work));
      wanted = std::max(fewest, static_cast<int>(share * wanted));
      places = choosePlaces(problem, ends, wanted);
      continue;
    }
    int64_t time = solver.findTime(base + excess);
    if (time == unknown) {
      visited += solver.countVisited();
      excess *= 4;
      continue;
    }
    Cut cut = solver.findCut(time);
    cut.order.resize(n);
    std::iota(cut.order.begin(), cut.order.end(), 0);
    cut.bound = bound;
    cut.places = n - 1;
    cut.considered = chain.size() - 1;
    cut.visited = visited + solver.countVisited();
    return cut;
  }
}

std::variant<Cut, TooFewOps>
polyrank::stages::cutIntoStages(const CutProblem &problem) {
  std::optional<Cut> best;
  std::optional<TooFewOps> few;
  for (const std::vector<int> &order : getCutOrders(problem)) {
    auto found = cutInOrder(reorder(problem, order));
    if (auto *cut = std::get_if<Cut>(&found)) {
      if (best && best->objective <= cut->objective)
        continue;
      best = std::move(*cut);
      best->order = order;
    } else if (!few) {
      few = std::get<TooFewOps>(found);
      for (int *op : {&few->after, &few->before})
        *op = *op < 0 ? -1 : order[*op];
    }
  }
  if (best)
    return *std::move(best);
  return *few;
}

StageCost polyrank::stages::getStageCost(const CutProblem &problem, int stage,
                                         int begin, int end) {
  StageCost cost;
  std::set<int> received, sent, parameters;
  for (int i = 0; i < static_cast<int>(problem.ops.size()); ++i) {
    const CutOp &op = problem.ops[i];
    bool isInside = begin <= i && i < end;
    for (int operand : op.operands) {
      if (isInside && operand < begin)
        received.insert(operand);
      if (i >= end && begin <= operand && operand < end)
        sent.insert(operand);
    }
    for (int parameter : op.parameters) {
      // The first stage that uses a parameter owns it.
      if (isInside && parameters.insert(parameter).second)
        cost.memory += problem.parameters[parameter].everywhere +
                       problem.parameters[parameter].owned;
    }
    if (isInside) {
      cost.time += op.time;
      cost.memory += op.kept * problem.live[stage];
    }
  }
  std::set<int> earlier;
  for (int i = 0; i < begin; ++i)
    for (int parameter : problem.ops[i].parameters)
      if (parameters.contains(parameter) && earlier.insert(parameter).second)
        cost.memory -= problem.parameters[parameter].owned;
  for (int op : received) {
    cost.received += problem.ops[op].bytes;
    cost.messages += problem.ops[op].messages;
  }
  for (int op : sent) {
    cost.sent += problem.ops[op].bytes;
    cost.messages += problem.ops[op].messages;
  }
  return cost;
}
