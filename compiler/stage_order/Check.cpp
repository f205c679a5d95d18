// Checks the conditions on a schedule (Check.h), first those on one rank.

#include "compiler/stage_order/Check.h"

#include "compiler/stage_order/Peaks.h"
#include "compiler/stage_order/Slots.h"
#include "runtime/progress/CheckPrograms.h"

#include <algorithm>
#include <array>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

constexpr int64_t none = -1;
constexpr int numParts = 4;

std::string number(int64_t value) { return std::to_string(value); }

class Checker {
public:
  Checker(const Schedule &schedule, const CheckOptions &options)
      : schedule(schedule), options(options) {}

  Result<void> check() {
    for (auto condition :
         {&Checker::checkSizes, &Checker::findPlaces, &Checker::checkAll,
          &Checker::checkOrders, &Checker::checkHeld, &Checker::checkWaiting})
      if (auto ok = (this->*condition)(); !ok)
        return ok;
    return {};
  }

private:
  bool isAskedFor(Part part) const {
    if (part == Part::Forward)
      return true;
    return options.trains &&
           schedule.splitsBackward == (part != Part::Backward);
  }

  /// `rank 1, entry 5 (F0.3)`.
  std::string describe(int64_t rank, int64_t place) const {
    return "rank " + number(rank) + ", entry " + number(place) + " (" +
           toString(schedule.ranks[rank][place]) + ")";
  }

  Result<void> checkSizes();
  Result<void> findPlaces();
  Result<void> checkAll();
  Result<void> checkOrders();
  Result<void> checkHeld();
  Result<void> checkWaiting();
  std::string explain(const progress::Fault::Step &step,
                      const SchedulePrograms &made) const;

  int64_t getPlace(int64_t stage, Part part, int64_t microbatch) const {
    return places[stage][static_cast<int>(part)][microbatch];
  }
  /// Fails unless the first entry comes before the second; both are on the same
  /// rank.
  Result<void> checkOrder(int64_t rank, int64_t first, int64_t second,
                          const char *why) const {
    if (first < second)
      return {};
    return Error{describe(rank, second) + " is in front of entry " +
                 number(first) + " (" + toString(schedule.ranks[rank][first]) +
                 "), " + why};
  }

  const Schedule &schedule;
  const CheckOptions &options;
  std::vector<std::vector<int64_t>> stages; // of ranks
  /// By stage, part and microbatch: the number of the entry on its rank.
  std::vector<std::array<std::vector<int64_t>, numParts>> places;
};

} // namespace

// Condition 1, and that the options fit the schedule.
Result<void> Checker::checkSizes() {
  int64_t numRanks = schedule.ranks.size();
  if (schedule.microbatches < 1 || schedule.microbatches > mostMicrobatches)
    return Error{"a schedule of " + number(schedule.microbatches) +
                 " microbatches: there are 1 to " + number(mostMicrobatches)};
  for (size_t stage = 0; stage < schedule.coordinates.size(); ++stage)
    if (int64_t rank = schedule.coordinates[stage];
        rank < 0 || rank >= numRanks)
      return Error{"stage " + number(stage) + " is on rank " + number(rank) +
                   " of the pipe axis, which has " + number(numRanks)};
  stages = getStagesOfRanks(schedule);
  for (int64_t rank = 0; rank < numRanks; ++rank)
    if (stages[rank].empty())
      return Error{"rank " + number(rank) + " has no stage"};
  if (stages.empty())
    return Error{"a schedule without ranks"};
  int64_t numStages = schedule.coordinates.size();
  if (auto ok = checkMostAreThere(schedule); !ok)
    return ok;
  for (auto [from, to] : options.skips)
    if (from < 0 || from >= to || to >= numStages)
      return Error{"a transfer from stage " + number(from) + " to " +
                   number(to) + ": it goes forward, and there are " +
                   number(numStages) + " stages"};
  return {};
}

// Conditions 2 and 3: no entry occurs twice.
Result<void> Checker::findPlaces() {
  places.resize(schedule.coordinates.size());
  for (auto &ofStage : places)
    for (int part = 0; part < numParts; ++part)
      if (isAskedFor(static_cast<Part>(part)))
        ofStage[part].assign(schedule.microbatches, none);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Entry &entry = schedule.ranks[rank][i];
      int64_t chunks = stages[rank].size();
      if (entry.chunk < 0 || entry.chunk >= chunks)
        return Error{describe(rank, i) + " is of chunk " + number(entry.chunk) +
                     ", and the rank has " + number(chunks) +
                     " stages, from 0"};
      if (entry.microbatch < 0 || entry.microbatch >= schedule.microbatches)
        return Error{describe(rank, i) + " is of microbatch " +
                     number(entry.microbatch) + ", and there are " +
                     number(schedule.microbatches) + ", from 0"};
      if (!isAskedFor(entry.part))
        return Error{describe(rank, i) +
                     (options.trains
                          ? schedule.splitsBackward
                                ? " is a whole backward, and backwards of "
                                  "this schedule are two parts, B and W"
                                : " is a part of a backward, and backwards of "
                                  "this schedule are whole"
                          : " is of a backward, and nothing but forwards is "
                            "asked for")};
      int64_t &place = places[stages[rank][entry.chunk]]
                             [static_cast<int>(entry.part)][entry.microbatch];
      if (place != none)
        return Error{describe(rank, i) + " repeats entry " + number(place)};
      place = i;
    }
  return {};
}

// Condition 3: no entry is missing. The error names the first missing
// microbatch.
Result<void> Checker::checkAll() {
  for (int64_t m = 0; m < schedule.microbatches; ++m)
    for (size_t rank = 0; rank < stages.size(); ++rank)
      for (size_t chunk = 0; chunk < stages[rank].size(); ++chunk)
        for (Part part : {Part::Forward, Part::Backward, Part::BackwardInput,
                          Part::BackwardWeight})
          if (isAskedFor(part) &&
              getPlace(stages[rank][chunk], part, m) == none)
            return Error{"rank " + number(rank) + " never runs " +
                         toString({part, int32_t(chunk), int32_t(m)}) +
                         (part == Part::BackwardWeight
                              ? ", gradients of weights"
                          : part != Part::Forward ? ", a backward"
                                                  : ", a forward")};
  return {};
}

// Conditions 4 and 5.
Result<void> Checker::checkOrders() {
  for (size_t rank = 0; rank < stages.size(); ++rank)
    for (size_t chunk = 0; chunk < stages[rank].size(); ++chunk) {
      int64_t stage = stages[rank][chunk];
      for (int64_t m = 0; m < schedule.microbatches; ++m) {
        std::vector<Part> parts = {Part::Forward};
        if (options.trains && !schedule.splitsBackward)
          parts.push_back(Part::Backward);
        if (options.trains && schedule.splitsBackward) {
          parts.push_back(Part::BackwardInput);
          parts.push_back(Part::BackwardWeight);
        }
        for (size_t i = 0; i < parts.size(); ++i) {
          int64_t place = getPlace(stage, parts[i], m);
          if (m > 0)
            if (auto ok =
                    checkOrder(rank, getPlace(stage, parts[i], m - 1), place,
                               "and microbatches of one part go up, so "
                               "that sums do not depend on the schedule");
                !ok)
              return ok;
          if (i > 0)
            if (auto ok = checkOrder(rank, getPlace(stage, parts[i - 1], m),
                                     place, "which it needs");
                !ok)
              return ok;
          if (chunk == 0 || parts[i] == Part::BackwardWeight)
            continue;
          int64_t earlier = getPlace(stages[rank][chunk - 1], parts[i], m);
          bool isForward = parts[i] == Part::Forward;
          if (auto ok =
                  checkOrder(rank, isForward ? earlier : place,
                             isForward ? place : earlier,
                             "of another chunk of the rank, which it needs");
              !ok)
            return ok;
        }
      }
    }
  return {};
}

// Condition 7.
Result<void> Checker::checkHeld() {
  if (!options.mostHeld)
    return {};
  std::vector<int64_t> held = getPeaks(schedule).ofRanks;
  // Find the entry at which a rank holds too many, the earliest over all ranks.
  for (size_t rank = 0; rank < held.size(); ++rank) {
    if (held[rank] <= *options.mostHeld)
      continue;
    Part last = !options.trains           ? Part::Forward
                : schedule.splitsBackward ? Part::BackwardWeight
                                          : Part::Backward;
    int64_t now = 0, place = 0;
    for (; now <= *options.mostHeld; ++place) {
      now += schedule.ranks[rank][place].part == Part::Forward;
      if (now <= *options.mostHeld)
        now -= schedule.ranks[rank][place].part == last;
    }
    return Error{describe(rank, place - 1) + " is microbatch number " +
                 number(now) + " that the rank holds, and " +
                 number(*options.mostHeld) + " are allowed; it would be " +
                 number(held[rank]) + " at the most"};
  }
  return {};
}

/// Explains what a rank in a circle waits for.
std::string Checker::explain(const progress::Fault::Step &step,
                             const SchedulePrograms &made) const {
  const progress::Program &program = made.programs.programs[step.program];
  const progress::Command &command = program[step.command];
  bool isSlot = command.action == progress::Command::Action::Wait;
  const progress::Command &moved = isSlot ? program[command.started] : command;
  const std::vector<int64_t> &members =
      made.programs.groups[moved.group].members;
  int64_t other = isSlot ? members[1] : members[0];
  std::string what =
      describe(step.rank, made.entries[step.program][step.command]);
  std::string value = "what goes from " +
                      made.programs.movements[moved.movement].place +
                      " of microbatch " + number(moved.microbatch);
  return isSlot ? what + ": waits until rank " + number(other) +
                      " has received " + value + ", whose slot it needs"
                : what + ": waits until rank " + number(other) + " has sent " +
                      value;
}

// Condition 6.
Result<void> Checker::checkWaiting() {
  int64_t slots = options.slots > 0 ? options.slots : schedule.microbatches;
  SchedulePrograms made =
      makePrograms(schedule, slots, getTransfers(schedule, options.skips));
  progress::Verdict verdict = progress::checkPrograms(made.programs);
  if (!verdict.fault)
    return {};
  std::string text = verdict.fault->what;
  constexpr size_t most = 8;
  const auto &steps = verdict.fault->steps;
  for (size_t i = 0; i < std::min(most, steps.size()); ++i)
    text += (i == 0 ? ": " : "; ") + explain(steps[i], made);
  if (steps.size() > most)
    text += "; and so on, " + number(steps.size()) + " ranks in all";
  if (slots < schedule.microbatches) {
    CheckOptions more = options;
    more.slots = 0;
    if (Checker(schedule, more).check())
      text += "; a transfer has " + number(slots) +
              (slots == 1 ? " slot" : " slots") + ", and with " +
              number(getLeastSlots(schedule, options.skips)) + " this ends";
  }
  return Error{text};
}

Result<void> polyrank::stage_order::checkSchedule(const Schedule &schedule,
                                                  const CheckOptions &options) {
  return Checker(schedule, options).check();
}
