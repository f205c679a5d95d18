// Follows the commands of a step, and records what they write and read.

#include "runtime/plan/MemoryTimeline.h"

#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/CommandBuffers.h"
#include "runtime/plan/CommandText.h"
#include "runtime/plan/ProgramChannels.h"
#include "support/Names.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace polyrank::runtime {
namespace {

class Follower {
public:
  explicit Follower(const plan::Program &program) : program(program) {}

  MemoryTimeline follow() {
    addFixed();
    std::vector<uint32_t> executions(program.segments()->size());
    for (const plan::Action *action : *program.schedule())
      ++executions[action->segment()];
    std::vector<bool> shown(executions.size());
    bool isAllShown = hasSlots();
    for (const plan::Action *action : *program.schedule()) {
      if (shown[action->segment()] && !isAllShown)
        continue;
      shown[action->segment()] = true;
      const plan::Segment &segment =
          *program.segments()->Get(action->segment());
      timeline.segments.push_back(
          {segment.name()->str(), action->microbatch(),
           isAllShown ? 1 : executions[action->segment()], now, 0});
      microbatch = action->microbatch();
      if (segment.commands())
        for (const plan::Command *command : *segment.commands())
          follow(*command);
      timeline.segments.back().commands = now - timeline.segments.back().first;
    }
    timeline.commands = now;
    finish();
    return std::move(timeline);
  }

private:
  /// A value that has been written and may be read again.
  struct Live {
    uint64_t end;
    uint32_t first, last;
    std::string kind, name;
    /// Set if it is computed of parameters alone.
    std::optional<MemoryUse> ofParameters = std::nullopt;
  };
  using LiveMap = std::map<uint64_t, Live>; // by begin

  struct Range {
    LiveMap *live;
    plan::Region region;
    uint64_t begin, end;
  };
  /// Returns the range of a buffer; in a loop from its first to its last byte
  /// in any iteration.
  Range rangeOf(const plan::BufferRef &buffer) {
    uint64_t begin = buffer.offset() + shiftOf(buffer, microbatch);
    LoopReach reach = reachOf(buffer, iterations);
    return {&lives[int(buffer.region())], buffer.region(), begin - reach.back,
            begin + reach.ahead + buffer.size()};
  }

  /// True if values of several microbatches are live between segments at once.
  bool hasSlots() const {
    bool found = false;
    for (const plan::Segment *segment : *program.segments())
      if (segment->commands())
        for (const plan::Command *command : *segment->commands())
          visitBuffers(
              *command,
              [&](const plan::BufferRef &buffer) {
                found |= buffer.slots() > 1;
              },
              [&](const plan::BufferRef &buffer, bool) {
                found |= buffer.slots() > 1;
              });
    return found;
  }

  void addFixed() {
    auto add = [&](const plan::BufferRef &buffer, std::string name,
                   MemoryUse use) {
      if (buffer.size() == 0)
        return;
      uint64_t &end = fixed[int(buffer.region())][buffer.offset()];
      end = std::max(end, buffer.offset() + buffer.size());
      ++numFixed;
      timeline.held.push_back({buffer.region(), buffer.offset(), buffer.size(),
                               0, 0, nameOf(use), std::move(name), use, true});
    };
    for (const plan::Argument *argument : *program.arguments()) {
      bool isParameter = argument->role() == plan::Role::Parameter;
      if (isParameter)
        parameters.insert(
            {argument->buffer()->region(), argument->buffer()->offset()});
      add(*argument->buffer(), argument->name()->str(),
          isParameter                             ? MemoryUse::Parameters
          : argument->role() == plan::Role::State ? MemoryUse::OptimizerState
                                                  : MemoryUse::Inputs);
    }
    if (program.constants())
      for (const plan::Constant *constant : *program.constants())
        add(*constant->buffer(), "constant", MemoryUse::Constants);
    if (program.axis_indices())
      for (const plan::AxisIndex *index : *program.axis_indices())
        add(*index->buffer(), "the rank's index", MemoryUse::Constants);
    uint64_t offset = 0;
    for (const ProgramChannel &channel : channelsOf(program)) {
      if (channel.bytes == 0)
        continue;
      ++numFixed;
      const auto *origin = channel.command->origin();
      timeline.held.push_back({std::nullopt, offset, channel.bytes, 0, 0,
                               nameOf(MemoryUse::Channels),
                               origin ? origin->str() : "send",
                               MemoryUse::Channels, true});
      offset += channel.bytes;
    }
  }

  bool isFixed(const Range &range) const {
    const auto &ranges = fixed[int(range.region)];
    auto after = ranges.upper_bound(range.begin);
    return after != ranges.begin() && std::prev(after)->second >= range.end;
  }

  void read(const Range &range) {
    LiveMap &live = *range.live;
    auto at = live.upper_bound(range.begin);
    if (at != live.begin())
      --at;
    for (; at != live.end() && at->first < range.end; ++at)
      if (at->second.end > range.begin)
        at->second.last = now;
  }

  /// Ends the values held in a range at the last command before the current
  /// one: what the current one overwrites belongs to the new value.
  void carve(const Range &range) {
    LiveMap &live = *range.live;
    auto at = live.upper_bound(range.begin);
    if (at != live.begin())
      --at;
    while (at != live.end() && at->first < range.end) {
      auto [begin, value] = *at;
      if (value.end <= range.begin) {
        ++at;
        continue;
      }
      at = live.erase(at);
      uint64_t from = std::max(begin, range.begin),
               to = std::min(value.end, range.end);
      if (value.first < now)
        timeline.held.push_back({range.region, from, to - from, value.first,
                                 std::min(value.last, now - 1), value.kind,
                                 value.name, useOf(value)});
      if (begin < from) {
        Live left = value;
        left.end = from;
        live.emplace(begin, left);
      }
      if (to < value.end)
        at = live.emplace(to, value).first;
    }
  }

  /// Returns true if the range holds parameters, or values that are computed of
  /// parameters alone.
  bool isOfParameters(const Range &range) const {
    if (parameters.contains({range.region, range.begin}))
      return true;
    auto at = range.live->upper_bound(range.begin);
    return at != range.live->begin() && std::prev(at)->second.ofParameters &&
           std::prev(at)->second.end >= range.end;
  }

  /// The use of what a command writes that reads parameters alone; nullopt for
  /// other commands.
  std::optional<MemoryUse> useOfParameters(const plan::Command &command) {
    const auto *collective = command.body_as_Collective();
    bool isGather = collective &&
                    collective->kind() == plan::CollectiveKind::AllGather,
         isKernel =
             command.body_as_Launch() && command.phase() != plan::Phase::Update;
    if (!isGather && !isKernel)
      return std::nullopt;
    bool reads = false, areParameters = true;
    visitBuffers(
        command,
        [&](const plan::BufferRef &buffer) {
          reads = true;
          areParameters &= isOfParameters(rangeOf(buffer));
        },
        [](const plan::BufferRef &, bool) {});
    if (!reads || !areParameters)
      return std::nullopt;
    return isGather ? MemoryUse::GatheredParameters
                    : MemoryUse::ConvertedParameters;
  }

  /// Returns the use of a value whose last reader is known.
  MemoryUse useOf(const Live &value) const {
    plan::Phase written = phases[value.first], read = phases[value.last];
    if (value.ofParameters)
      return *value.ofParameters;
    if (written == plan::Phase::Forward && read == plan::Phase::Backward)
      return MemoryUse::SavedActivations;
    // Accumulated values are read by the next microbatch.
    bool isKept =
        &timeline.segmentOf(value.first) != &timeline.segmentOf(value.last);
    if (written == plan::Phase::Backward &&
        (isKept || read == plan::Phase::Update))
      return MemoryUse::Gradients;
    return MemoryUse::Temporary;
  }

  /// The buffers of a collective in flight are held until its wait.
  void holdUntilNow(const plan::Collective &collective) {
    for (const plan::Transfer *transfer : *collective.transfers())
      for (const plan::BufferRef *buffer :
           {transfer->input(), transfer->output()})
        read(rangeOf(*buffer));
  }

  void follow(const plan::Command &command) {
    if (const auto *collective = command.body_as_Collective();
        collective && collective->request())
      started[collective->request()] = collective;
    else if (const auto *wait = command.body_as_Wait())
      holdUntilNow(*started.at(wait->request()));
    std::string origin = command.origin() ? command.origin()->str() : "";
    origins.push_back(origin);
    phases.push_back(command.phase());
    iterations = iterationsOf(command);
    std::optional<MemoryUse> ofParameters = useOfParameters(command);
    visitBuffers(
        command, [&](const plan::BufferRef &buffer) { read(rangeOf(buffer)); },
        [&](const plan::BufferRef &buffer, bool isScratch) {
          Range range = rangeOf(buffer);
          if (range.begin == range.end || isFixed(range))
            return;
          carve(range);
          range.live->emplace(
              range.begin, Live{range.end, now, now,
                                isScratch ? "scratch" : nameOf(command.phase()),
                                origin, ofParameters});
        });
    ++now;
  }

  void finish() {
    uint32_t end = now ? now - 1 : 0;
    for (size_t i = 0; i < numFixed; ++i)
      timeline.held[i].last = end;
    // The host reads the outputs after the step.
    microbatch = 0, iterations = 1;
    now = end;
    for (const plan::Output *output : *program.outputs())
      read(rangeOf(*output->buffer()));
    for (plan::Region region : {plan::Region::Shared, plan::Region::Private})
      for (auto &[begin, value] : lives[int(region)])
        timeline.held.push_back({region, begin, value.end - begin, value.first,
                                 value.last, value.kind, value.name,
                                 useOf(value)});
    std::vector<uint64_t> held = timeline.heldBytes();
    auto most = std::max_element(held.begin(), held.end());
    if (most == held.end())
      return;
    timeline.peak = static_cast<uint32_t>(most - held.begin());
    timeline.peakBytes = *most;
    timeline.peakOrigin = origins[timeline.peak];
    timeline.peakPhase = nameOf(phases[timeline.peak]);
  }

  const plan::Program &program;
  MemoryTimeline timeline;
  LiveMap lives[2]; // by region
  /// The ranges that are live all the time: begin and end.
  std::map<uint64_t, uint64_t> fixed[2];
  /// Where parameters begin.
  std::set<std::pair<plan::Region, uint64_t>> parameters;
  size_t numFixed = 0;
  uint32_t microbatch = 0;
  uint32_t iterations = 1; // of the current command
  uint32_t now = 0;
  std::map<uint32_t, const plan::Collective *> started; // by request
  std::vector<std::string> origins;
  std::vector<plan::Phase> phases;
};

/// Returns the module: "transformer.h.0.attn/node_matmul" ->
/// "transformer.h.0.attn". A name without a node is that of a parameter or of
/// the step itself.
std::string moduleOf(const HeldBytes &held) {
  size_t slash = held.name.rfind('/');
  if (slash != std::string::npos)
    return held.name.substr(0, slash);
  size_t dot = held.kind == "update" ? held.name.rfind('.') : std::string::npos;
  return dot == std::string::npos ? held.name : held.name.substr(0, dot);
}

} // namespace

const TimelineSegment &MemoryTimeline::segmentOf(uint32_t command) const {
  auto after = std::upper_bound(segments.begin(), segments.end(), command,
                                [](uint32_t number, const auto &segment) {
                                  return number < segment.first;
                                });
  return *std::prev(after);
}

std::vector<uint64_t>
MemoryTimeline::heldBytes(std::optional<MemoryUse> use) const {
  if (commands == 0)
    return {};
  std::vector<uint64_t> changes(commands + 1);
  for (const HeldBytes &value : held) {
    if (use && value.use != *use)
      continue;
    changes[value.first] += value.size;
    changes[value.last + 1] -= value.size; // modulo 2^64; the sum is right
  }
  for (uint32_t i = 1; i <= commands; ++i)
    changes[i] += changes[i - 1];
  changes.resize(commands);
  return changes;
}

const char *nameOf(MemoryUse use) {
  static constexpr const char *names[] = {"parameters",
                                          "optimizer state",
                                          "inputs",
                                          "constants",
                                          "channels",
                                          "gradients",
                                          "gathered parameters",
                                          "converted parameters",
                                          "saved activations",
                                          "temporary"};
  static_assert(std::size(names) == numMemoryUses);
  return names[int(use)];
}

std::array<UseBytes, numMemoryUses> usesOf(const MemoryTimeline &timeline) {
  std::array<UseBytes, numMemoryUses> result;
  for (int use = 0; use < numMemoryUses; ++use) {
    std::vector<uint64_t> held = timeline.heldBytes(MemoryUse(use));
    if (!held.empty())
      result[use] = {held[timeline.peak],
                     *std::max_element(held.begin(), held.end())};
  }
  return result;
}

MemoryTimeline timelineOf(const LoadedPlan &plan, uint32_t program) {
  return Follower(plan.program(program)).follow();
}

PeakReport peakOf(const MemoryTimeline &timeline) {
  PeakReport report;
  if (timeline.commands == 0)
    return report;
  report.bytes = timeline.peakBytes;
  report.segment = timeline.segmentOf(timeline.peak).name;
  report.origin = timeline.peakOrigin;
  report.phase = timeline.peakPhase;
  struct Sum {
    LayerNames modules;
    std::set<std::string> seen;
    uint64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const HeldBytes &held : timeline.held) {
    if (held.first > timeline.peak || held.last < timeline.peak)
      continue;
    std::string module = held.isFixed ? "" : moduleOf(held);
    Sum &sum = sums[{held.kind, LayerNames::getKey(module)}];
    if (sum.seen.insert(module).second)
      sum.modules.add(module);
    sum.bytes += held.size;
  }
  for (auto &[key, sum] : sums)
    report.lines.push_back({key.first, sum.modules.toString(), sum.bytes});
  std::sort(report.lines.begin(), report.lines.end(),
            [](const auto &a, const auto &b) {
              return std::tie(b.bytes, a.kind, a.module) <
                     std::tie(a.bytes, b.kind, b.module);
            });
  return report;
}

} // namespace polyrank::runtime
