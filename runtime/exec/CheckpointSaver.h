// A rank's side of writing checkpoints.

#pragma once

#include "runtime/checkpoint/ShardWriter.h"
#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Weights.h"

namespace polyrank::runtime {

/// What a rank tells the launcher when its file is durable, or why it is not.
struct ShardReport {
  uint64_t step = 0, bytes = 0;
  double copySeconds = 0, waitSeconds = 0, writeSeconds = 0;
  std::vector<std::vector<uint64_t>> checksums; // of its tensors, as specsOf
  std::string error;
};

/// Copies what a rank has to write at the end of a step, and writes it in the
/// background while the training goes on. At most one checkpoint at a time: the
/// next one waits until this rank's file of the one before is durable.
class CheckpointSaver {
public:
  /// Takes the memory for the copy. Parts that no rank computes with are read
  /// now. All arguments outlive it.
  static Result<std::unique_ptr<CheckpointSaver>>
  create(const CheckpointLayout &layout, int64_t rank,
         const RankProgram &program, const Weights &initial,
         ParallelFor parallelFor, FileOperations &files);

  /// Of the step that has just been done, into `unfinished`, which is made. The
  /// report of the save before is returned, if there was one. A file that
  /// cannot be written is no error here: the report says so.
  Result<std::optional<ShardReport>> save(uint64_t step,
                                          const std::string &unfinished,
                                          const std::function<void()> &onTick);
  /// The report of the one that is being written, when its file is durable.
  std::optional<ShardReport> poll();
  /// Waits for the one that is being written.
  std::optional<ShardReport> finish(const std::function<void()> &onTick);

  /// The memory that a rank takes.
  static uint64_t memoryBytes(const CheckpointLayout &layout, int64_t rank);

private:
  CheckpointSaver(const CheckpointLayout &layout, int64_t rank,
                  const RankProgram &program, ParallelFor parallelFor,
                  FileOperations &files)
      : layout(layout), parts(layout.parts[static_cast<size_t>(rank)]),
        rank(rank), program(program), parallelFor(std::move(parallelFor)),
        files(files) {}
  Result<void> copy();

  const CheckpointLayout &layout;
  const std::vector<CheckpointPart> &parts;
  int64_t rank;
  const RankProgram &program;
  ParallelFor parallelFor;
  FileOperations &files;
  std::optional<ShardWriter> writer; // none where the rank has nothing to write
  ShardReport current;
};

} // namespace polyrank::runtime
