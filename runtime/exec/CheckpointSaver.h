// A rank's side of writing checkpoints.

#pragma once

#include "runtime/checkpoint/ShardWriter.h"
#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Weights.h"

namespace polyrank::runtime {

/// A rank's report to the launcher that its file is durable, or why it is not.
struct ShardReport {
  uint64_t step = 0, bytes = 0;
  double copySeconds = 0, waitSeconds = 0, writeSeconds = 0;
  std::vector<std::vector<uint64_t>> checksums; // by tensor, as in specsOf
  std::string error;
};

/// Copies what a rank has to write at the end of a step, and writes it in the
/// background while the training continues. One checkpoint is written at a
/// time: the next save waits until this rank's file of the previous one is
/// durable.
class CheckpointSaver {
public:
  /// Allocates the memory for the copy, and reads the parts that no rank
  /// computes with. All arguments must outlive the saver.
  static Result<std::unique_ptr<CheckpointSaver>>
  create(const CheckpointLayout &layout, int64_t rank,
         const RankProgram &program, const Weights &initial,
         ParallelFor parallelFor, FileOperations &files);

  /// Saves the step that has just been done into the folder `unfinished`, which
  /// is created. Returns the report of the previous save, if there was one. A
  /// file that cannot be written is no error here: its report says so. With
  /// `checksFinite` nothing is written, and the error names the tensor, if a
  /// part that was finite when it was loaded no longer is: each rank looks at
  /// what it copies, and all of them together at everything.
  Result<std::optional<ShardReport>> save(uint64_t step,
                                          const std::string &unfinished,
                                          bool checksFinite,
                                          const std::function<void()> &onTick);
  /// Returns the report of the save in progress once its file is durable.
  std::optional<ShardReport> poll();
  /// Waits for the save in progress, and returns its report.
  std::optional<ShardReport> finish(const std::function<void()> &onTick);

  /// The bytes of memory that a rank allocates.
  static uint64_t memoryBytes(const CheckpointLayout &layout, int64_t rank);

private:
  CheckpointSaver(const CheckpointLayout &layout, int64_t rank,
                  const RankProgram &program, ParallelFor parallelFor,
                  FileOperations &files)
      : layout(layout), parts(layout.parts[static_cast<size_t>(rank)]),
        rank(rank), program(program), parallelFor(std::move(parallelFor)),
        files(files) {}
  /// Returns the first stored tensor that is not finite any more, if those are
  /// looked for.
  Result<std::optional<uint32_t>> copy(bool looksForNan);

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
