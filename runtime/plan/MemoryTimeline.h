// What lies in the arena when: derived from the commands of a plan.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// What bytes are held for: the kinds that formulas of memory speak of
/// (Rajbhandari et al., ZeRO, 2020; Korthikanti et al., Reducing Activation
/// Recomputation in Large Transformer Models, 2022). The first five are there
/// all the time.
enum class MemoryUse {
  Parameters,
  OptimizerState,
  Inputs,
  Constants,
  /// What is sent to other ranks, until they have received it.
  Channels,
  /// What the backward computes for the update, or adds up over microbatches.
  Gradients,
  /// Parameters of which each rank keeps a part, put together (ZeRO 3).
  GatheredParameters,
  /// What the forward writes and the backward reads.
  SavedActivations,
  /// Whatever else: read in the phase that writes it; scratch of products.
  Temporary
};
constexpr int numMemoryUses = int(MemoryUse::Temporary) + 1;
/// "saved activations".
const char *nameOf(MemoryUse use);

/// Bytes of the arena that hold one value, of a program's first rank, from the
/// command that writes them to the last one that reads them, both included. A
/// value that is overwritten in pieces is several of these.
struct HeldBytes {
  plan::Region region = plan::Region::Private;
  uint64_t offset = 0, size = 0;
  uint32_t first = 0, last = 0; // commands of the timeline
  /// "parameters", "optimizer state", "inputs", "constants", "channels": there
  /// all the time. Else "forward", "backward" or "update", the phase that
  /// writes the value, or "scratch" of a product.
  std::string kind;
  /// The argument, or the command's origin in the user's model.
  std::string name;
  MemoryUse use = MemoryUse::Temporary;
  bool isFixed = false; // there all the time
};

/// One execution of a segment.
struct TimelineSegment {
  std::string name;
  uint32_t microbatch = 0;
  uint32_t repeats =
      1; // how often a step runs it, of which this shows the first
  uint32_t first = 0, commands = 0;
};

/// The commands of a step, one after another, numbered from 0. Of a segment
/// that runs for several microbatches only the first execution is among them,
/// as the others hold the same; unless what one microbatch leaves for its next
/// segment waits beside that of others: then all are.
struct MemoryTimeline {
  std::vector<HeldBytes> held;
  std::vector<TimelineSegment> segments;
  uint32_t commands = 0;
  /// The first command during which most is held, its op and its phase.
  uint32_t peak = 0;
  uint64_t peakBytes = 0;
  std::string peakOrigin, peakPhase;

  /// The segment of a command.
  const TimelineSegment &segmentOf(uint32_t command) const;
  /// How much is held during each command, of all uses or of one.
  std::vector<uint64_t>
  heldBytes(std::optional<MemoryUse> use = std::nullopt) const;
};

/// Of the program of this number.
MemoryTimeline timelineOf(const LoadedPlan &plan, uint32_t program = 0);

/// Of one use: how much is held when most is held in all, and the most of it
/// that is held at any time.
struct UseBytes {
  uint64_t atPeak = 0, most = 0;
};
std::array<UseBytes, numMemoryUses> usesOf(const MemoryTimeline &timeline);

/// When most is held, and what. Values of modules that differ in the numbers of
/// layers only are one line.
struct PeakReport {
  uint64_t bytes = 0;
  std::string segment, origin, phase; // of the command
  struct Line {
    std::string kind;   // as HeldBytes has it
    std::string module; // "transformer.h.[0-11].mlp"; empty for what is fixed
    uint64_t bytes = 0;
  };
  std::vector<Line> lines; // the largest first
};
PeakReport peakOf(const MemoryTimeline &timeline);

/// The timeline as a picture: the arena's addresses over the commands of a
/// step, each value a rectangle, and how much is held in all. The text of an
/// SVG file.
std::string memorySvg(const MemoryTimeline &timeline, const LoadedPlan &plan,
                      uint32_t program = 0);

} // namespace polyrank::runtime
