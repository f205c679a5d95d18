// Random and mutated schedules against the definition: a schedule is valid if
// each part of each microbatch runs once, in ascending order, and all can run
// one after another, each after what it needs.

#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/Simulate.h"
#include "test/compiler/stage_order/NamedSchedules.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

using namespace polyrank::stage_order;
using namespace polyrank::test;

namespace {

using Random = std::mt19937_64;
/// Stage, part, microbatch.
using Job = std::tuple<int64_t, Part, int64_t>;

int64_t draw(Random &random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// Returns the jobs that a job needs, on any rank.
std::vector<Job> getNeeds(const Schedule &schedule, const Job &job) {
  auto [stage, part, m] = job;
  int64_t last = schedule.coordinates.size() - 1;
  std::vector<Job> needs;
  if (part == Part::Forward && stage > 0)
    needs.push_back({stage - 1, part, m});
  if (part == Part::BackwardWeight)
    needs.push_back({stage, Part::BackwardInput, m});
  if (part == Part::Backward || part == Part::BackwardInput) {
    needs.push_back({stage, Part::Forward, m});
    if (stage < last)
      needs.push_back({stage + 1, part, m});
  }
  return needs;
}

/// Returns the stage of a rank's chunk by the coordinates.
int64_t getStage(const Schedule &schedule, int64_t rank, int64_t chunk) {
  for (size_t stage = 0; stage < schedule.coordinates.size(); ++stage)
    if (schedule.coordinates[stage] == rank && chunk-- == 0)
      return stage;
  return -1;
}

std::set<Job> getJobs(const Schedule &schedule) {
  std::set<Job> jobs;
  std::vector<Part> parts = {Part::Forward};
  if (schedule.splitsBackward)
    parts.insert(parts.end(), {Part::BackwardInput, Part::BackwardWeight});
  else
    parts.push_back(Part::Backward);
  for (size_t stage = 0; stage < schedule.coordinates.size(); ++stage)
    for (Part part : parts)
      for (int64_t m = 0; m < schedule.microbatches; ++m)
        jobs.insert({stage, part, m});
  return jobs;
}

/// The definition. A sender of `slots` values waits for the receiver.
bool isGood(const Schedule &schedule, int64_t slots) {
  std::set<Job> left = getJobs(schedule), done;
  std::map<std::pair<int64_t, Part>, int64_t> before;
  std::vector<std::vector<Job>> jobs(schedule.ranks.size());
  for (size_t rank = 0; rank < jobs.size(); ++rank)
    for (const Entry &entry : schedule.ranks[rank]) {
      int64_t stage = getStage(schedule, rank, entry.chunk);
      Job job{stage, entry.part, entry.microbatch};
      if (stage < 0 || left.erase(job) == 0)
        return false;
      auto [last, isFirst] =
          before.try_emplace({stage, entry.part}, entry.microbatch);
      if (!isFirst && last->second > entry.microbatch)
        return false;
      last->second = entry.microbatch;
      jobs[rank].push_back(job);
    }
  if (!left.empty())
    return false;
  // A job has begun once it has received its inputs, and is done once it has
  // sent its outputs.
  std::set<Job> begun;
  std::vector<size_t> next(jobs.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < jobs.size(); ++rank) {
      if (next[rank] == jobs[rank].size())
        continue;
      Job job = jobs[rank][next[rank]];
      auto [stage, part, m] = job;
      if (!begun.count(job)) {
        for (const Job &need : getNeeds(schedule, job))
          if (!done.count(need))
            goto stands;
        begun.insert(job);
        moved = true;
      }
      if (part != Part::BackwardWeight) {
        int64_t to = part == Part::Forward ? stage + 1 : stage - 1;
        bool sends = to >= 0 && to < int64_t(schedule.coordinates.size()) &&
                     schedule.coordinates[to] != int64_t(rank);
        if (sends && m >= slots && !begun.count({to, part, m - slots}))
          continue;
      }
      done.insert(job);
      ++next[rank];
      moved = true;
    stands:;
    }
  }
  for (size_t rank = 0; rank < jobs.size(); ++rank)
    if (next[rank] < jobs[rank].size())
      return false;
  return true;
}

Times drawTimes(Random &random, const Schedule &schedule) {
  Times times;
  times.stages.clear();
  for (size_t stage = 0; stage < schedule.coordinates.size(); ++stage)
    times.stages.push_back(
        {draw(random, 0, 9), draw(random, 0, 9), draw(random, 0, 9)});
  for (size_t stage = 0; stage + 1 < schedule.coordinates.size(); ++stage)
    times.transfers.push_back({int64_t(stage), int64_t(stage) + 1,
                               draw(random, 0, 3), draw(random, 0, 3)});
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    times.updates.push_back(draw(random, 0, 9));
  times.waitsForAll = draw(random, 0, 1);
  return times;
}

/// Expects that each job runs after what it needs, one at a time on each rank,
/// and that the makespan is at least the bound.
void expectInOrder(const Schedule &schedule, const Times &times) {
  auto simulation = simulate(schedule, times);
  ASSERT_TRUE(simulation) << simulation.error().message;
  EXPECT_GE(simulation->makespan, simulation->lowerBound);
  EXPECT_GE(simulation->makespan, simulation->period);
  std::map<Job, Interval> ran;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Entry &entry = schedule.ranks[rank][i];
      Interval time = simulation->entries[rank][i];
      ran[{getStage(schedule, rank, entry.chunk), entry.part,
           entry.microbatch}] = time;
      if (i > 0) {
        EXPECT_GE(time.start, simulation->entries[rank][i - 1].end);
      }
      EXPECT_LE(time.end, simulation->updates[rank].start);
    }
  for (const auto &[job, time] : ran)
    for (const Job &need : getNeeds(schedule, job)) {
      int64_t arrived = ran.at(need).end;
      int64_t from = std::get<0>(need), to = std::get<0>(job);
      if (schedule.coordinates[from] != schedule.coordinates[to]) {
        const TransferTimes &transfer = times.transfers[std::min(from, to)];
        arrived += from < to ? transfer.forward : transfer.backward;
      }
      EXPECT_GE(time.start, arrived);
    }
}

/// Draws a schedule with any order of all jobs, each after what it needs and
/// with ascending microbatches.
Schedule drawSchedule(Random &random) {
  Schedule schedule;
  int64_t ranks = draw(random, 1, 4), chunks = draw(random, 1, 3);
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t rank = 0; rank < ranks; ++rank)
      schedule.coordinates.push_back(rank);
  std::shuffle(schedule.coordinates.begin(), schedule.coordinates.end(),
               random);
  schedule.microbatches = draw(random, 1, 6);
  schedule.splitsBackward = draw(random, 0, 1);
  schedule.ranks.resize(ranks);
  std::set<Job> left = getJobs(schedule);
  while (!left.empty()) {
    std::vector<Job> ready;
    for (const Job &job : left) {
      auto [stage, part, m] = job;
      bool isReady = m == 0 || !left.count({stage, part, m - 1});
      for (const Job &need : getNeeds(schedule, job))
        isReady &= !left.count(need);
      if (isReady)
        ready.push_back(job);
    }
    auto [stage, part, m] = ready[draw(random, 0, ready.size() - 1)];
    left.erase({stage, part, m});
    int64_t rank = schedule.coordinates[stage];
    int32_t chunk = std::count(schedule.coordinates.begin(),
                               schedule.coordinates.begin() + stage, rank);
    schedule.ranks[rank].push_back({part, chunk, int32_t(m)});
  }
  return schedule;
}

Schedule drawNamed(Random &random) {
  const char *texts[] = {"gpipe", "1f1b", "interleaved", "zero-bubble",
                         "zero-bubble-v"};
  while (true) {
    auto schedule = makeSchedule(texts[draw(random, 0, 4)], draw(random, 1, 5),
                                 draw(random, 1, 3), draw(random, 1, 9));
    if (schedule)
      return *schedule;
  }
}

/// Swaps two entries, or moves, drops, repeats or changes one.
void mutate(Random &random, Schedule &schedule) {
  int64_t rank = draw(random, 0, schedule.ranks.size() - 1);
  std::vector<Entry> &entries = schedule.ranks[rank];
  if (entries.empty())
    return;
  int64_t last = entries.size() - 1, at = draw(random, 0, last);
  Entry moved = entries[at];
  switch (draw(random, 0, 8)) {
  case 0:
    std::swap(entries[at], entries[draw(random, 0, last)]);
    break;
  case 1:
  case 2:
    std::swap(entries[at], entries[std::min(at + 1, last)]);
    break;
  case 3:
  case 4:
  case 5:
    entries.erase(entries.begin() + at);
    entries.insert(entries.begin() + draw(random, std::max<int64_t>(0, at - 5),
                                          std::min(at + 5, last)),
                   moved);
    break;
  case 6:
    entries.erase(entries.begin() + at);
    break;
  case 7:
    entries.insert(entries.begin() + draw(random, 0, last), moved);
    break;
  default:
    entries[at].microbatch = draw(random, 0, schedule.microbatches - 1);
  }
}

TEST(ScheduleMutations, RandomSchedulesPassWithSlotsEnough) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    Schedule schedule = drawSchedule(random);
    auto ok = checkSchedule(schedule);
    EXPECT_TRUE(ok) << i << ": " << ok.error().message;
    expectInOrder(schedule, drawTimes(random, schedule));
  }
}

// A mutated schedule is refused, or does all jobs in an order that satisfies
// their needs.
TEST(ScheduleMutations, AreRefusedOrEquivalent) {
  Random random(2);
  int64_t refused = 0, equivalent = 0, waiting = 0;
  for (int i = 0; i < 12000; ++i) {
    Schedule schedule =
        draw(random, 0, 1) ? drawNamed(random) : drawSchedule(random);
    const Schedule before = schedule;
    for (int64_t changes = draw(random, 1, 2); changes > 0; --changes)
      mutate(random, schedule);
    CheckOptions options;
    options.slots = draw(random, 0, 3);
    Times times = drawTimes(random, schedule);
    times.slots = options.slots;
    int64_t slots = options.slots ? options.slots : schedule.microbatches;
    auto ok = checkSchedule(schedule, options);
    ASSERT_EQ(bool(ok), isGood(schedule, slots))
        << i << ": " << (ok ? "accepted" : ok.error().message);
    if (ok) {
      expectInOrder(schedule, times);
      equivalent += schedule != before;
    } else {
      ++refused;
      waiting += ok.error().message.starts_with("ranks wait for each other");
    }
  }
  // Each outcome occurs often enough to be meaningful.
  EXPECT_GT(refused, 5000);
  EXPECT_GT(equivalent, 500);
  EXPECT_GT(waiting, 100);
}

} // namespace
