// Which segments a microbatch is cut into, and when each of them runs.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"

namespace polyrank::lowering {

/// How many slots a stash needs.
struct SlotCount {
  /// The least number with which no two microbatches whose values are there at
  /// the same time have the same slot.
  int64_t slots = 1;
  /// The most values that are there at once: there cannot be fewer slots.
  int64_t bound = 1;
};
/// `spans` has for each microbatch the numbers of the runs from which on and
/// until which its value is there.
SlotCount countSlots(llvm::ArrayRef<std::pair<int64_t, int64_t>> spans);

/// Where microbatches are cut, and in which order their parts run.
struct MicrobatchCut {
  /// Without a pipeline: a microbatch is cut in front of its backward, and so
  /// many of them go forward before the first of them goes backward; with 0 it
  /// is one segment.
  int64_t ahead = 0;
  /// Of a pipeline: the stages at this coordinate, ascending, and what it runs.
  std::vector<int64_t> stages = {};
  std::vector<stage_order::Entry> entries = {};
  bool splitsBackward = false;
};

/// A microbatch in segments. Values of the body are told by the segment that
/// computes them.
class SegmentPlan {
public:
  using Run = rank::MicrobatchesOp::Run;

  /// Emits an error where what a microbatch hands to the next is not computed
  /// in time.
  static mlir::FailureOr<SegmentPlan> build(graph::MicrobatchesOp op,
                                            MicrobatchCut cut);

  int64_t getNumSegments() const;
  std::string getName(int64_t segment) const;
  /// Those of one step, in order.
  llvm::ArrayRef<Run> getRuns() const { return runs; }

  /// The segment that computes `value`; of a carried argument the first that
  /// reads it. -1 where each segment finds it: slices, and what is computed
  /// outside.
  int64_t getSegment(mlir::Value value) const;
  int64_t getSegment(mlir::Operation *inner) const {
    return segments.at(inner);
  }
  /// The segment that gives the next part of sum `i`.
  int64_t getSumSegment(unsigned i) const;
  /// The segment that gives carried value `i` to the next microbatch.
  int64_t getCarrySegment(unsigned i) const;

  /// Whether whoever needs the value computes it, for next to nothing:
  /// constants, and other views of what is there.
  static bool isFree(mlir::Value value);

  /// What a segment hands to a later one of the same microbatch.
  struct Crossing {
    mlir::Value value;
    llvm::SmallVector<int64_t> readers; // segments
    SlotCount count = {};
  };
  llvm::ArrayRef<Crossing> getCrossings() const { return crossings; }

private:
  SegmentPlan(graph::MicrobatchesOp op, MicrobatchCut cut)
      : op(op), cut(std::move(cut)) {}
  bool isPipeline() const { return !cut.stages.empty(); }
  int64_t getSegment(stage_order::Part part, int64_t chunk) const;
  std::optional<int64_t> getOwnSegment(mlir::Operation *inner) const;
  void findWeightGradients();
  void assignOps();
  bool isEmpty(int64_t segment) const;
  mlir::LogicalResult checkCarried();
  void orderRuns();
  void findCrossings();
  void require(mlir::Value value, int64_t reader);
  llvm::SmallVector<std::pair<int64_t, int64_t>>
  getSpans(const Crossing &crossing) const;

  mutable graph::MicrobatchesOp op;
  MicrobatchCut cut;
  llvm::DenseMap<mlir::Operation *, int64_t> segments;
  /// Ops of the backward for which no other stage, and no other gradient,
  /// waits.
  llvm::DenseSet<mlir::Operation *> weightGradients;
  llvm::SmallVector<Run> runs;
  llvm::SmallVector<Crossing> crossings;
};

} // namespace polyrank::lowering
