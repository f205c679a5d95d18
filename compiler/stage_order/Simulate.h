// Simulates a schedule with given times: when each rank runs each entry.
//
// A rank runs its entries one after another, each as soon as its operands have
// arrived. After an entry its results are sent, which takes the rank no time: a
// transfer overlaps with the rank's next entries, and begins after earlier
// transfers of this rank to the same rank have ended. A value arrives whole,
// and its slot becomes free when the receiver's entry begins. A sender without
// a free slot waits until there is one.
//
// After its last entry a rank updates its parameters.

#pragma once

#include "compiler/stage_order/Peaks.h"
#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// Times of one stage for one microbatch, in any unit that is the same
/// everywhere. A whole backward takes the sum of its two parts.
struct StageTimes {
  int64_t forward = 1, backwardInput = 1, backwardWeight = 1;
};

/// Times of the transfers from one stage to a later one, and of the gradients
/// back.
struct TransferTimes {
  int64_t from = 0, to = 1;
  int64_t forward = 0, backward = 0;
};

struct Times {
  /// One for each stage, or a single one for all.
  std::vector<StageTimes> stages = {StageTimes{}};
  /// Adjacent stages always have a transfer, which takes no time if it is not
  /// listed; other pairs are transfers that skip stages.
  std::vector<TransferTimes> transfers = {};
  /// The update of each rank; empty if updates take no time.
  std::vector<int64_t> updates = {};
  /// True if no rank updates before all ranks have run their last entry,
  /// because the update depends on all gradients: clipping by the global norm,
  /// or skipping the step on all ranks if some gradient is not finite.
  bool waitsForAll = false;
  /// The slots of each transfer; 0 means as many as there are microbatches.
  int64_t slots = 0;
};

struct Interval {
  int64_t start = 0, end = 0;

  int64_t getLength() const { return end - start; }
  friend bool operator==(const Interval &, const Interval &) = default;
};

/// The transfer of one value.
struct Transfer {
  int64_t from = 0, to = 0; // stages
  int64_t microbatch = 0;
  bool isBackward = false;
  Interval time;
};

struct Simulation {
  std::vector<std::vector<Interval>> entries; // as in the schedule
  std::vector<Interval> updates;              // of ranks
  std::vector<Transfer> transfers;            // that take time

  /// From the first entry to the end of the last update.
  int64_t makespan = 0;
  /// No schedule of these stages is shorter, even with unlimited memory. It is
  /// the largest of
  /// - for each rank, the earliest time at which the first microbatch can reach
  ///   its first stage, plus all the work of the rank;
  /// - the same without weight gradients if the backward is split, plus the
  ///   time in which the last gradient goes from the rank's first stage down to
  ///   stage 0;
  /// - the path of one microbatch through all stages and back.
  /// Each includes the updates, after what they wait for.
  int64_t lowerBound = 0;
  /// The time from one step to the next when steps follow each other: the
  /// makespan if updates wait for all ranks, else the longest time from a
  /// rank's first entry to its end, since a rank can begin the next step while
  /// others finish this one.
  int64_t period = 0;
  /// The work of each rank, its update included.
  std::vector<int64_t> work;
  /// For each rank, the share of the makespan, and of the period, in which it
  /// is idle.
  std::vector<double> bubbles, bubblesOfPeriod;
  Peaks peaks;
};

/// Fails if ranks wait for each other in a circle, if an entry is at a place
/// where its operands cannot have been computed, or if the sizes of `times` do
/// not fit.
Result<Simulation> simulate(const Schedule &schedule, const Times &times = {});

} // namespace polyrank::stage_order
