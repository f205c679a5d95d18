// Which segments a microbatch is cut into, and when each of them runs.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"

namespace polyrank::lowering {

/// The number of slots that a stash needs.
struct SlotCount {
  /// The smallest number with which no two microbatches whose values are live
  /// at the same time share a slot.
  int64_t slots = 1;
  /// The most values that are live at once: a lower bound for `slots`.
  int64_t bound = 1;
};
/// `spans` has, for each microbatch, the numbers of the first and the last run
/// during which its value is live.
SlotCount countSlots(llvm::ArrayRef<std::pair<int64_t, int64_t>> spans);

/// Where microbatches are cut, and the order in which their parts run.
struct MicrobatchCut {
  /// Without a pipeline: a microbatch is cut before its backward, and `ahead`
  /// microbatches go forward before the first goes backward; with 0 it is one
  /// segment.
  int64_t ahead = 0;
  /// With a pipeline: the stages at this coordinate, ascending, and the entries
  /// that it runs.
  std::vector<int64_t> stages = {};
  std::vector<stage_order::Entry> entries = {};
  bool splitsBackward = false;
};

/// A microbatch cut into segments. A value of the body belongs to the segment
/// that computes it.
class SegmentPlan {
public:
  using Run = rank::MicrobatchesOp::Run;

  /// Emits an error if a value that a microbatch hands to the next one is not
  /// computed in time.
  static mlir::FailureOr<SegmentPlan> build(graph::MicrobatchesOp op,
                                            MicrobatchCut cut);

  int64_t getNumSegments() const;
  std::string getName(int64_t segment) const;
  /// The runs of one step, in order.
  llvm::ArrayRef<Run> getRuns() const { return runs; }

  /// The segment that computes `value`; for a carried argument, the first
  /// segment that reads it. -1 if every segment has the value: slices, and
  /// values computed outside.
  int64_t getSegment(mlir::Value value) const;
  int64_t getSegment(mlir::Operation *inner) const {
    return segments.at(inner);
  }
  /// The segment that yields the next summand of sum `i`.
  int64_t getSumSegment(unsigned i) const;
  /// The segment that yields carried value `i` for the next microbatch.
  int64_t getCarrySegment(unsigned i) const;

  /// Returns true if each segment that needs the value computes it itself, at
  /// almost no cost: constants, and other views of available values.
  static bool isFree(mlir::Value value);

  /// A value that a segment hands to later segments of the same microbatch.
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
