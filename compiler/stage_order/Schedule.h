// In which order the ranks of a pipeline run their stages: schedules as data.
//
// A model is cut into stages, each of which lives on one rank of the pipe axis.
// A rank's stages are its chunks. A schedule is one list for each rank: which
// part of which chunk comes next, and of which microbatch. docs/schedules.md
// has a picture of each.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::stage_order {

/// What is run of a stage. Its backward is one part, or two that are apart:
/// the gradient of what the stage got, which the stage before it waits for, and
/// the gradients of its weights, for which nobody waits.
enum class Part : uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct Entry {
  Part part = Part::Forward;
  int32_t chunk = 0; // of this rank, in the order of its stages
  int32_t microbatch = 0;

  friend bool operator==(const Entry &, const Entry &) = default;
};

struct Schedule {
  /// Of each stage: the rank of the pipe axis that it lives on.
  std::vector<int64_t> coordinates;
  int64_t microbatches = 1;
  /// What each rank runs, in order.
  std::vector<std::vector<Entry>> ranks;
  /// Backwards are two parts, in all chunks.
  bool splitsBackward = false;

  friend bool operator==(const Schedule &, const Schedule &) = default;
};

/// What a schedule runs: a step of training, or forwards alone.
inline constexpr std::string_view trainParts = "train",
                                  forwardParts = "forward";

/// The schedule that is meant by `text`, for `ranks` ranks of the pipe axis of
/// `chunks` stages each:
///
/// - `gpipe`: all forwards, then all backwards. Huang et al., GPipe, 2019. With
///   chunks breadth first: Lamy-Poirier, Breadth-First Pipeline Parallelism,
///   2023.
/// - `1f1b`: one forward and one backward in turn, one chunk. Narayanan et al.,
///   Memory-Efficient Pipeline-Parallel DNN Training, 2021 (PipeDream-Flush).
/// - `interleaved`: the same with chunks. Narayanan et al., Efficient
///   Large-Scale Language Model Training on GPU Clusters, 2021.
/// - `zero-bubble`: ZB-H1, 1f1b with the backward in two parts, one chunk. Qi
///   et al., Zero Bubble Pipeline Parallelism, 2024.
/// - `zero-bubble-v`: ZB-V, two chunks, the second in reverse. Qi et al.,
///   Pipeline Parallelism with Controllable Memory, 2024.
/// - `file:PATH`: what is written there (ScheduleText.h).
///
/// Each is for any number of microbatches from one, and runs those of one part
/// of a chunk in ascending order. With parts `forward` it has the forwards
/// only, in the same order. What is made passes checkSchedule; what is read
/// does too, or is an error.
Result<Schedule> makeSchedule(std::string_view text, int64_t ranks,
                              int64_t chunks, int64_t microbatches,
                              std::string_view parts = trainParts);

/// Where each stage lives with that schedule: 0..P-1 for each chunk, and for
/// the second chunk of `zero-bubble-v` P-1..0. Of a file what it says.
Result<std::vector<int64_t>> getCoordinates(std::string_view text,
                                            int64_t ranks, int64_t chunks);

/// The stages of each rank, in ascending order: by chunk.
std::vector<std::vector<int64_t>> getStagesOfRanks(const Schedule &schedule);

/// Fails where more than half of what its stages run for its microbatches is
/// missing, for one microbatch number alone may be as large as it likes. What
/// is kept for each stage and microbatch is then a small multiple of the
/// entries.
Result<void> checkMostAreThere(const Schedule &schedule);

/// `F0.3`: part, chunk, microbatch. B is the whole backward, or of two parts
/// the first; W is the second.
std::string toString(const Entry &entry);

/// More than this is nobody's pipeline, and would make sizes overflow.
inline constexpr int64_t mostStages = 1 << 12, mostMicrobatches = 1 << 20,
                         mostEntries = 1 << 23;

} // namespace polyrank::stage_order
