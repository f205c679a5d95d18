// Pipeline schedules as data: the order in which each rank runs its stages.
//
// A model is cut into stages, each on one rank of the pipe axis. The stages of
// a rank are its chunks. A schedule has one list per rank: which part of which
// chunk runs next, and for which microbatch. docs/schedules.md has a picture of
// each.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::stage_order {

/// The parts of a stage's work. Its backward is one part, or two: the gradient
/// of the stage's input, which the previous stage waits for, and the gradients
/// of its weights, for which no stage waits.
enum class Part : uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct Entry {
  Part part = Part::Forward;
  int32_t chunk = 0; // of this rank, in the order of its stages
  int32_t microbatch = 0;

  friend bool operator==(const Entry &, const Entry &) = default;
};

struct Schedule {
  /// The rank of the pipe axis on which each stage lives.
  std::vector<int64_t> coordinates;
  int64_t microbatches = 1;
  /// What each rank runs, in order.
  std::vector<std::vector<Entry>> ranks;
  /// True if the backwards of all chunks are split into two parts.
  bool splitsBackward = false;

  friend bool operator==(const Schedule &, const Schedule &) = default;
};

/// What a schedule runs: a step of training, or forwards alone.
inline constexpr std::string_view trainParts = "train",
                                  forwardParts = "forward";

/// Returns the schedule named by `text`, for `ranks` ranks of the pipe axis
/// with `chunks` stages each:
///
/// - `gpipe`: all forwards, then all backwards. Huang et al., GPipe, 2019. With
///   chunks breadth first: Lamy-Poirier, Breadth-First Pipeline Parallelism,
///   2023.
/// - `1f1b`: one forward and one backward alternate, one chunk. Narayanan et
///   al., Memory-Efficient Pipeline-Parallel DNN Training, 2021
///   (PipeDream-Flush).
/// - `interleaved`: the same with chunks. Narayanan et al., Efficient
///   Large-Scale Language Model Training on GPU Clusters, 2021.
/// - `zero-bubble`: ZB-H1, 1f1b with a split backward, one chunk. Qi et al.,
///   Zero Bubble Pipeline Parallelism, 2024.
/// - `zero-bubble-v`: ZB-V, two chunks, the second in reverse order of the
///   ranks. Qi et al., Pipeline Parallelism with Controllable Memory, 2024.
/// - `file:PATH`: the schedule written in that file (ScheduleText.h).
///
/// Each takes any number of microbatches from one on, and runs the microbatches
/// of one part of a chunk in ascending order. If `parts` is `forward` the
/// schedule has only the forwards, in the same order. Every generated schedule
/// passes checkSchedule; a file whose schedule does not is an error.
Result<Schedule> makeSchedule(std::string_view text, int64_t ranks,
                              int64_t chunks, int64_t microbatches,
                              std::string_view parts = trainParts);

/// The names of the generated schedules.
std::vector<std::string> getScheduleNames();

/// Returns the rank of each stage under that schedule: 0..P-1 for each chunk,
/// but P-1..0 for the second chunk of `zero-bubble-v`. A file states its own.
Result<std::vector<int64_t>> getCoordinates(std::string_view text,
                                            int64_t ranks, int64_t chunks);

/// The stages of each rank, in ascending order, which is the order of its
/// chunks.
std::vector<std::vector<int64_t>> getStagesOfRanks(const Schedule &schedule);

/// Fails if there are fewer than half as many entries as stages times
/// microbatches, since a single entry may name an arbitrarily large microbatch.
/// After this check, tables with a cell for each stage and microbatch take a
/// small multiple of the memory of the entries.
Result<void> checkMostAreThere(const Schedule &schedule);

/// Formats an entry as `F0.3`: part, chunk, microbatch. B is the whole
/// backward, or the first of two parts; W is the second part.
std::string toString(const Entry &entry);

/// Limits that no real pipeline reaches, and above which sizes would overflow.
inline constexpr int64_t mostStages = 1 << 12, mostMicrobatches = 1 << 20,
                         mostEntries = 1 << 23;

} // namespace polyrank::stage_order
