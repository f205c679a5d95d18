// Builds a program for each rank: sends and receives in the order of its
// entries.

#include "compiler/stage_order/Programs.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

using namespace polyrank;
using namespace polyrank::stage_order;
using Action = progress::Command::Action;

std::vector<StagePair>
polyrank::stage_order::getTransfers(const Schedule &schedule,
                                    const std::vector<StagePair> &skips) {
  std::vector<StagePair> pairs = skips;
  int64_t stages = schedule.coordinates.size();
  for (int64_t stage = 0; stage + 1 < stages; ++stage)
    pairs.emplace_back(stage, stage + 1);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::erase_if(pairs, [&](const StagePair &pair) {
    return schedule.coordinates[pair.first] ==
           schedule.coordinates[pair.second];
  });
  return pairs;
}

namespace {

/// What a stage receives and sends, as numbers of movements: pair i has
/// movement 2i forward and 2i + 1 backward.
struct Ends {
  std::vector<int32_t> receives[2], sends[2]; // forward, backward
};

class ProgramWriter {
public:
  explicit ProgramWriter(int64_t slots) : slots(slots) {}

  void add(const Entry &entry, int32_t number, const Ends &ends) {
    if (entry.part == Part::BackwardWeight)
      return;
    entryNumber = number;
    int direction = entry.part != Part::Forward;
    for (int32_t movement : ends.receives[direction])
      put({Action::Run, movement, movement, progress::Command::ownQueue,
           entry.microbatch});
    for (int32_t movement : ends.sends[direction]) {
      auto &before = inFlight[movement];
      if (int64_t(before.size()) == slots)
        waitForOldest(before);
      before.push_back(static_cast<int32_t>(program.size()));
      put({Action::Start, movement, movement, progress::Command::ownQueue,
           entry.microbatch});
    }
  }

  /// Ends the program with waits for everything in flight.
  void finish(SchedulePrograms &into) {
    for (auto &[movement, started] : inFlight)
      while (!started.empty())
        waitForOldest(started);
    into.programs.programs.push_back(std::move(program));
    into.entries.push_back(std::move(entries));
  }

private:
  void put(const progress::Command &command) {
    program.push_back(command);
    entries.push_back(entryNumber);
  }
  void waitForOldest(std::deque<int32_t> &started) {
    progress::Command command;
    command.action = Action::Wait;
    command.started = started.front();
    started.pop_front();
    put(command);
  }

  int64_t slots;
  int32_t entryNumber = 0;
  progress::Program program;
  std::vector<int32_t> entries;
  std::map<int32_t, std::deque<int32_t>> inFlight; // by movement: its starts
};

} // namespace

SchedulePrograms
polyrank::stage_order::makePrograms(const Schedule &schedule, int64_t slots,
                                    const std::vector<StagePair> &transfers) {
  int64_t numRanks = schedule.ranks.size();
  SchedulePrograms made;
  progress::RankPrograms &programs = made.programs;
  programs.mesh = progress::Mesh({{"pipe", numRanks}});
  programs.classAxes = {0};
  programs.programOf.clear();
  // Only the slots limit transfers.
  constexpr int64_t noLimit = std::numeric_limits<int32_t>::max();
  programs.limits = {noLimit, noLimit, noLimit};
  std::vector<Ends> ends(schedule.coordinates.size());
  auto addMovement = [&](int64_t from, int64_t to, int direction) {
    int32_t movement = static_cast<int32_t>(programs.movements.size());
    programs.groups.push_back(
        {{{0, 1, numRanks}},
         {schedule.coordinates[from], schedule.coordinates[to]},
         movement});
    programs.movements.push_back(
        {uint64_t(movement),
         "transfer",
         {},
         "stage " + std::to_string(from) + " to " + std::to_string(to)});
    ends[from].sends[direction].push_back(movement);
    ends[to].receives[direction].push_back(movement);
  };
  for (auto [from, to] : transfers) {
    addMovement(from, to, 0);
    addMovement(to, from, 1);
  }
  std::vector<std::vector<int64_t>> stages = getStagesOfRanks(schedule);
  for (int64_t rank = 0; rank < numRanks; ++rank) {
    ProgramWriter writer(slots);
    const std::vector<Entry> &entries = schedule.ranks[rank];
    for (size_t i = 0; i < entries.size(); ++i)
      writer.add(entries[i], static_cast<int32_t>(i),
                 ends[stages[rank][entries[i].chunk]]);
    writer.finish(made);
    programs.programOf.push_back(static_cast<int32_t>(rank));
  }
  return made;
}
