// The contents of a rank's memory over a step, derived from the commands of a
// plan.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The use of memory, in the categories of the usual formulas (Rajbhandari et
/// al., ZeRO, 2020; Korthikanti et al., Reducing Activation Recomputation in
/// Large Transformer Models, 2022). The first five are live all the time.
enum class MemoryUse {
  Parameters,
  OptimizerState,
  Inputs,
  Constants,
  /// Values that are sent to other ranks, until they have been received; in
  /// memory of the communicator.
  Channels,
  /// What the backward computes for the update, or accumulates over
  /// microbatches.
  Gradients,
  /// Parameters that are split over ranks, after their all-gather (ZeRO 3).
  GatheredParameters,
  /// Values that a kernel computes from parameters alone before the update:
  /// parameters in another type or order.
  ConvertedParameters,
  /// What the forward writes and the backward reads.
  SavedActivations,
  /// Everything else: values read in the phase that writes them; scratch.
  Temporary
};
constexpr int numMemoryUses = int(MemoryUse::Temporary) + 1;
/// "saved activations".
const char *nameOf(MemoryUse use);

/// A range of the memory of a program's first rank that holds one value, from
/// the command that writes it to the last one that reads it, inclusive. A value
/// that is overwritten in pieces is several of these.
struct HeldBytes {
  /// The region of the arena; without one it is memory of the communicator.
  std::optional<plan::Region> region = plan::Region::Private;
  uint64_t offset = 0, size = 0;
  uint32_t first = 0, last = 0; // commands of the timeline
  /// "parameters", "optimizer state", "inputs", "constants" or "channels",
  /// which are live all the time; otherwise the phase that writes the value
  /// ("forward", "backward" or "update"), or "scratch" of a library call.
  std::string kind;
  /// The argument, or the command's origin in the user's model.
  std::string name;
  MemoryUse use = MemoryUse::Temporary;
  bool isFixed = false; // live all the time
};

/// One execution of a segment.
struct TimelineSegment {
  std::string name;
  uint32_t microbatch = 0;
  uint32_t repeats = 1; // executions in a step; this is the first
  uint32_t first = 0, commands = 0;
};

/// The commands of a step in their order, numbered from 0. A segment that runs
/// for several microbatches occurs once, since all executions hold the same;
/// but if values of several microbatches are live between segments at once, all
/// executions occur.
struct MemoryTimeline {
  std::vector<HeldBytes> held;
  std::vector<TimelineSegment> segments;
  uint32_t commands = 0;
  /// The first command at the peak, its op and its phase.
  uint32_t peak = 0;
  uint64_t peakBytes = 0;
  std::string peakOrigin, peakPhase;

  /// The segment of a command.
  const TimelineSegment &segmentOf(uint32_t command) const;
  /// Returns the bytes held during each command, for all uses or for one.
  std::vector<uint64_t>
  heldBytes(std::optional<MemoryUse> use = std::nullopt) const;
};

/// Returns the timeline of program number `program`.
MemoryTimeline timelineOf(const LoadedPlan &plan, uint32_t program = 0);

/// The bytes of one use at the peak of the total, and its own peak.
struct UseBytes {
  uint64_t atPeak = 0, most = 0;
};
std::array<UseBytes, numMemoryUses> usesOf(const MemoryTimeline &timeline);

/// The peak, and what is held then. Values of modules that differ only in layer
/// numbers are one line.
struct PeakReport {
  uint64_t bytes = 0;
  std::string segment, origin, phase; // of the command
  struct Line {
    std::string kind;   // HeldBytes::kind
    std::string module; // "transformer.h.[0-11].mlp"; empty if fixed
    uint64_t bytes = 0;
  };
  std::vector<Line> lines; // the largest first
};
PeakReport peakOf(const MemoryTimeline &timeline);

/// Returns the timeline as an SVG picture: the arena's addresses over the
/// commands of a step, each value a rectangle, and the total held.
std::string memorySvg(const MemoryTimeline &timeline, const LoadedPlan &plan,
                      uint32_t program = 0);

} // namespace polyrank::runtime
