// When the ranks of a pipeline run what, with given times.
//
// A rank runs its entries one after another, each as soon as what it needs has
// come. What an entry makes is sent behind it, which takes the rank no time:
// the transfer runs beside what the rank does next, behind those that the rank
// has sent to the same rank before. A value arrives whole, and its slot is free
// again when the receiver's entry begins. Where no slot is free the sender
// stands until one is.
//
// Behind its last entry a rank updates its parameters.

#pragma once

#include "compiler/stage_order/Peaks.h"
#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// Of one stage and microbatch, in any unit that is the same everywhere. A
/// whole backward takes the sum of its two parts.
struct StageTimes {
  int64_t forward = 1, backwardInput = 1, backwardWeight = 1;
};

/// Of what goes from one stage to a later one, and of its gradient.
struct TransferTimes {
  int64_t from = 0, to = 1;
  int64_t forward = 0, backward = 0;
};

struct Times {
  /// Of each stage, or one for all.
  std::vector<StageTimes> stages = {StageTimes{}};
  /// From each stage to the next there is a transfer in any case, which takes
  /// no time where it is not listed; other pairs are those that skip stages.
  std::vector<TransferTimes> transfers = {};
  /// Of each rank, or none.
  std::vector<int64_t> updates = {};
  /// No rank updates anything before all have run their last entry: what is
  /// updated depends on all gradients, as with clipping by the norm of all, or
  /// where one that is not finite makes all ranks skip the step.
  bool waitsForAll = false;
  /// Of each transfer; 0: as many as there are microbatches.
  int64_t slots = 0;
};

struct Interval {
  int64_t start = 0, end = 0;

  int64_t getLength() const { return end - start; }
  friend bool operator==(const Interval &, const Interval &) = default;
};

/// One value on its way.
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
  /// No schedule of these stages is shorter, whatever it holds. The largest of
  /// - for each rank, the time until the first microbatch can have come to its
  ///   first stage, and then all that it does;
  /// - the same, but without gradients of weights if they are apart, and then
  ///   the time in which the last gradient goes down from its first stage;
  /// - the way of one microbatch through all stages and back.
  /// With updates behind what they wait for.
  int64_t lowerBound = 0;
  /// From one step to the next where one follows the other: the makespan if
  /// updates wait for all, else the longest time from a rank's first entry to
  /// its end, since a rank can begin the next step while others end this one.
  int64_t period = 0;
  /// Of each rank, what it does with its update.
  std::vector<int64_t> work;
  /// Of each rank: the share of the makespan, and of the period, in which it
  /// does nothing.
  std::vector<double> bubbles, bubblesOfPeriod;
  Peaks peaks;
};

/// An error where ranks wait for each other in a circle, or an entry stands
/// where what it needs cannot have been done, or times do not fit.
Result<Simulation> simulate(const Schedule &schedule, const Times &times = {});

} // namespace polyrank::stage_order
