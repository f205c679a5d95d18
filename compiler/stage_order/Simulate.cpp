// Simulates a schedule. Since the order of each rank's entries is fixed, the
// times are the same in whatever order the ranks are visited.

#include "compiler/stage_order/Simulate.h"

#include "compiler/stage_order/LowerBound.h"
#include "compiler/stage_order/Programs.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

constexpr int64_t unknown = -1;

std::string number(int64_t value) { return std::to_string(value); }

/// The values that go from one stage to another, by microbatch.
struct Channel {
  int64_t from, to; // stages
  bool isBackward;
  int64_t time = 0;
  std::vector<int64_t> arrived = {}, received = {};
};

class Run {
public:
  Run(const Schedule &schedule, const Times &times)
      : schedule(schedule), times(times), stages(getStagesOfRanks(schedule)) {
    slots = times.slots > 0 ? times.slots : schedule.microbatches;
  }

  Result<Simulation> run();

private:
  struct Rank {
    size_t next = 0;
    /// True if its next entry has ended; `sent` of its values are already sent.
    bool hasRun = false;
    size_t sent = 0;
    int64_t time = 0;
  };
  struct Ends {
    std::array<std::vector<int32_t>, 2> receives, sends; // forward, backward
  };

  Result<void> checkTimes() const;
  void makeChannels();
  const StageTimes &getTimes(int64_t stage) const {
    return times.stages[times.stages.size() == 1 ? 0 : stage];
  }
  int64_t getDuration(int64_t stage, Part part) const;
  char &isDone(int64_t stage, Part part, int64_t microbatch) {
    return done[(stage * 4 + static_cast<int>(part)) * schedule.microbatches +
                microbatch];
  }
  bool isReady(int64_t stage, const Entry &entry);
  /// Returns true if the rank's next entry could run; its times are then known.
  bool runEntry(int64_t rank, int64_t stage, const Entry &entry);
  bool send(int64_t rank, int32_t channel, int64_t microbatch);
  void advance(int64_t rank);
  void wake(int64_t stage) { ready.push_back(schedule.coordinates[stage]); }
  void update();
  void measure();

  const Schedule &schedule;
  const Times &times;
  std::vector<std::vector<int64_t>> stages; // of ranks
  int64_t slots;
  std::vector<Channel> channels;
  std::vector<Ends> ends; // of stages
  std::vector<char> done;
  std::vector<Rank> ranks;
  // By ranks: the time when the link is free again.
  std::map<std::pair<int64_t, int64_t>, int64_t> links;
  std::deque<int64_t> ready; // ranks
  Simulation simulation;
};

} // namespace

Result<void> Run::checkTimes() const {
  size_t numStages = schedule.coordinates.size();
  if (auto ok = checkMostAreThere(schedule); !ok)
    return ok;
  if (times.stages.size() != 1 && times.stages.size() != numStages)
    return Error{"times of " + number(times.stages.size()) +
                 " stages, and the schedule has " + number(numStages)};
  if (!times.updates.empty() && times.updates.size() != schedule.ranks.size())
    return Error{"times of " + number(times.updates.size()) +
                 " updates, and the schedule has " +
                 number(schedule.ranks.size()) + " ranks"};
  auto isNegative = [](auto... values) { return ((values < 0) || ...); };
  bool anyNegative = times.slots < 0;
  for (const StageTimes &each : times.stages)
    anyNegative |=
        isNegative(each.forward, each.backwardInput, each.backwardWeight);
  for (const TransferTimes &each : times.transfers)
    anyNegative |= isNegative(each.forward, each.backward);
  for (int64_t each : times.updates)
    anyNegative |= isNegative(each);
  if (anyNegative)
    return Error{"a time or a number of slots is negative"};
  for (const TransferTimes &each : times.transfers)
    if (each.from < 0 || each.from >= each.to || each.to >= int64_t(numStages))
      return Error{"a transfer from stage " + number(each.from) + " to " +
                   number(each.to) + ": it goes forward, and there are " +
                   number(numStages) + " stages"};
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const Entry &entry : schedule.ranks[rank])
      if (entry.chunk < 0 || entry.chunk >= int64_t(stages[rank].size()) ||
          entry.microbatch < 0 || entry.microbatch >= schedule.microbatches)
        return Error{"rank " + number(rank) + " has no " + toString(entry)};
  return {};
}

void Run::makeChannels() {
  std::vector<StagePair> skips;
  std::map<StagePair, const TransferTimes *> known;
  for (const TransferTimes &each : times.transfers) {
    skips.emplace_back(each.from, each.to);
    known[skips.back()] = &each;
  }
  ends.resize(schedule.coordinates.size());
  for (auto [from, to] : getTransfers(schedule, skips)) {
    auto found = known.find({from, to});
    const TransferTimes none;
    const TransferTimes &time = found == known.end() ? none : *found->second;
    int32_t channel = static_cast<int32_t>(channels.size());
    channels.push_back({from, to, false, time.forward});
    channels.push_back({to, from, true, time.backward});
    ends[from].sends[0].push_back(channel);
    ends[to].receives[0].push_back(channel);
    ends[to].sends[1].push_back(channel + 1);
    ends[from].receives[1].push_back(channel + 1);
  }
  for (Channel &channel : channels) {
    channel.arrived.assign(schedule.microbatches, unknown);
    channel.received.assign(schedule.microbatches, unknown);
  }
}

int64_t Run::getDuration(int64_t stage, Part part) const {
  const StageTimes &of = getTimes(stage);
  switch (part) {
  case Part::Forward:
    return of.forward;
  case Part::Backward:
    return of.backwardInput + of.backwardWeight;
  case Part::BackwardInput:
    return of.backwardInput;
  case Part::BackwardWeight:
    return of.backwardWeight;
  }
  return 0;
}

/// Returns true if the values that the entry needs from its own rank are there.
bool Run::isReady(int64_t stage, const Entry &entry) {
  int64_t m = entry.microbatch, numStages = schedule.coordinates.size();
  auto isHere = [&](int64_t other) {
    return other >= 0 && other < numStages &&
           schedule.coordinates[other] == schedule.coordinates[stage];
  };
  if (entry.part == Part::Forward)
    return !isHere(stage - 1) || isDone(stage - 1, Part::Forward, m);
  if (entry.part == Part::BackwardWeight)
    return isDone(stage, Part::BackwardInput, m);
  return isDone(stage, Part::Forward, m) &&
         (!isHere(stage + 1) || isDone(stage + 1, entry.part, m));
}

bool Run::runEntry(int64_t rank, int64_t stage, const Entry &entry) {
  Rank &state = ranks[rank];
  if (state.hasRun)
    return true;
  if (!isReady(stage, entry))
    return false;
  int64_t start = state.time;
  std::vector<int32_t> none;
  const std::vector<int32_t> &receives =
      entry.part == Part::BackwardWeight
          ? none
          : ends[stage].receives[entry.part != Part::Forward];
  for (int32_t channel : receives) {
    int64_t arrived = channels[channel].arrived[entry.microbatch];
    if (arrived == unknown)
      return false;
    start = std::max(start, arrived);
  }
  for (int32_t channel : receives) {
    channels[channel].received[entry.microbatch] = start;
    wake(channels[channel].from);
  }
  state.time = start + getDuration(stage, entry.part);
  state.hasRun = true;
  isDone(stage, entry.part, entry.microbatch) = true;
  simulation.entries[rank][state.next] = {start, state.time};
  return true;
}

bool Run::send(int64_t rank, int32_t number, int64_t microbatch) {
  Channel &channel = channels[number];
  Rank &state = ranks[rank];
  if (microbatch >= slots) {
    int64_t isFree = channel.received[microbatch - slots];
    if (isFree == unknown)
      return false;
    state.time = std::max(state.time, isFree);
  }
  int64_t &link = links[{rank, schedule.coordinates[channel.to]}];
  Interval time{std::max(state.time, link), 0};
  time.end = time.start + channel.time;
  if (channel.time > 0) {
    link = time.end;
    simulation.transfers.push_back(
        {channel.from, channel.to, microbatch, channel.isBackward, time});
  }
  channel.arrived[microbatch] = channel.time > 0 ? time.end : state.time;
  wake(channel.to);
  return true;
}

void Run::advance(int64_t rank) {
  Rank &state = ranks[rank];
  const std::vector<Entry> &entries = schedule.ranks[rank];
  while (state.next < entries.size()) {
    const Entry &entry = entries[state.next];
    int64_t stage = stages[rank][entry.chunk];
    if (!runEntry(rank, stage, entry))
      return;
    if (entry.part != Part::BackwardWeight) {
      const auto &sends = ends[stage].sends[entry.part != Part::Forward];
      while (state.sent < sends.size()) {
        if (!send(rank, sends[state.sent], entry.microbatch))
          return;
        ++state.sent;
      }
    }
    state.sent = 0;
    state.hasRun = false;
    ++state.next;
  }
}

void Run::update() {
  int64_t last = 0;
  for (const Rank &rank : ranks)
    last = std::max(last, rank.time);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int64_t start = times.waitsForAll ? last : ranks[rank].time;
    int64_t time = times.updates.empty() ? 0 : times.updates[rank];
    simulation.updates.push_back({start, start + time});
    simulation.makespan = std::max(simulation.makespan, start + time);
  }
}

void Run::measure() {
  simulation.period = times.waitsForAll ? simulation.makespan : 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int64_t work = simulation.updates[rank].getLength();
    for (const Interval &entry : simulation.entries[rank])
      work += entry.getLength();
    simulation.work.push_back(work);
    int64_t first = simulation.entries[rank].empty()
                        ? simulation.updates[rank].start
                        : simulation.entries[rank].front().start;
    simulation.period =
        std::max(simulation.period, simulation.updates[rank].end - first);
  }
  auto share = [](int64_t work, int64_t of) {
    return of == 0 ? 0.0 : 1 - static_cast<double>(work) / double(of);
  };
  for (int64_t work : simulation.work) {
    simulation.bubbles.push_back(share(work, simulation.makespan));
    simulation.bubblesOfPeriod.push_back(share(work, simulation.period));
  }
  simulation.lowerBound = getLowerBound(schedule, times);
  simulation.peaks = getPeaks(schedule);
}

Result<Simulation> Run::run() {
  if (auto ok = checkTimes(); !ok)
    return ok.error();
  makeChannels();
  done.assign(schedule.coordinates.size() * 4 * schedule.microbatches, false);
  ranks.resize(schedule.ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    simulation.entries.emplace_back(schedule.ranks[rank].size());
    ready.push_back(rank);
  }
  while (!ready.empty()) {
    int64_t next = ready.front();
    ready.pop_front();
    advance(next);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (size_t next = ranks[rank].next; next < schedule.ranks[rank].size())
      return Error{"rank " + number(rank) + " waits without end at entry " +
                   number(next) + " (" + toString(schedule.ranks[rank][next]) +
                   "): checkSchedule says for whom"};
  update();
  measure();
  return std::move(simulation);
}

Result<Simulation> polyrank::stage_order::simulate(const Schedule &schedule,
                                                   const Times &times) {
  return Run(schedule, times).run();
}
