// The source of the rows of a global batch, on any rank.

#pragma once

#include "runtime/data/DataFiles.h"
#include "runtime/data/SampleFile.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/SampleStream.h"
#include "runtime/data/SourceMix.h"

#include <memory>

namespace polyrank::runtime {

struct DataOptions {
  /// Files and patterns, with optional weights: see findDataFiles.
  std::vector<std::string> paths;
  /// The type of the values in a file of raw tokens: uint8, uint16, uint32,
  /// int32 or int64. If empty it follows from the file's name, see SampleFile.
  std::string tokenType = {};
  DocumentOptions documents = {};
  uint64_t batch = 1; // samples per step, over all ranks and microbatches
  SampleOrder order = SampleOrder::Random;
  uint64_t seed = 0;
  double holdout = 0; // fraction of each file's samples, the last ones
  /// A split may have fewer samples than a batch, but at least one.
  bool allowPart = false;
};

enum class Split { Train, Holdout };

/// The samples of a batch: row b has the sample at position first + b % count
/// of the split. Positions of training count in the sample order, those of the
/// holdout in the files' order.
struct Batch {
  Split split = Split::Train;
  uint64_t first = 0, count = 1;

  bool operator==(const Batch &) const = default;
};

/// The samples of all data files (SampleFile.h). Several files form one long
/// sequence; with weights each source has an order and epochs of its own, and
/// SourceMix chooses the source of each position.
///
/// Step s takes the positions sB .. sB + B - 1 of the order, whatever the
/// number of ranks. Held-out samples are taken in the files' order. Reading is
/// const and may run on several threads.
class DataSource {
public:
  /// Opens the files and checks that they have everything the inputs need,
  /// types and shapes included, and at least one global batch of each split in
  /// use.
  static Result<DataSource> open(const DataOptions &options,
                                 std::span<const InputSpec> inputs);

  /// Batches that come from elsewhere, each once and in order; `stream` is null
  /// where nobody reads them. They have no number of samples (0), and no
  /// held-out ones. `description` is for messages, and `mixture` says how the
  /// samples of several sources follow on each other.
  static DataSource ofStream(std::shared_ptr<SampleStream> stream,
                             std::string description, std::string mixture,
                             uint64_t batch);
  bool isStream() const { return !streamed.empty(); }
  const std::string &mixture() const { return streamMixture; }
  /// Waits until a batch of a stream is there, or false: none follows. Of files
  /// all batches are there. See SampleStream.
  Result<bool> await(const Batch &batch,
                     const std::function<Result<void>()> &beat) const {
    return stream ? stream->await(batch.first / options.batch, beat)
                  : Result<bool>(true);
  }
  /// Ends the waits of all threads for a stream.
  void cancel() const {
    if (stream)
      stream->cancel();
  }

  /// Reads rows [begin, end) of a batch, 0 <= begin <= end <= B, of input
  /// number `input`: dense, in the input's dtype.
  Result<void> read(const Batch &batch, size_t input, int64_t begin,
                    int64_t end, std::byte *into) const;
  /// Reads rows of the global batch of `step`.
  Result<void> read(Split split, uint64_t step, size_t input, int64_t begin,
                    int64_t end, std::byte *into) const {
    return read(batchOf(split, step), input, begin, end, into);
  }
  Batch batchOf(Split split, uint64_t step) const {
    return {split, step * options.batch, options.batch};
  }
  /// Returns batches in which every sample of a split has the same weight:
  /// whole batches, then for the remaining r < B samples batches of fewer, each
  /// with a number of samples (`count`) that divides B and repeated to fill the
  /// batch.
  std::vector<Batch> batchesOfAll(Split split) const;

  /// Reads all samples, including the holdout, and fails unless every value is
  /// valid for its input.
  Result<void> checkAll() const;
  /// Runs the same check on files of at most `checkedBytes`, which takes
  /// seconds at most. Then nothing that a step reads is out of range, unless
  /// the files change.
  Result<void> checkRanges() const;
  bool isChecked() const;
  static constexpr uint64_t checkedBytes = uint64_t(1) << 30;

  bool hasWeights() const { return mix.has_value(); }
  /// The bytes of memory that each process needs for the samples.
  uint64_t memoryBytes() const;
  /// Identifies the open files among all others (InputFile::identity).
  Result<std::string> identity() const;
  /// The paths of all files, in their order.
  std::vector<std::string> paths() const;

  uint64_t samples(Split split) const {
    return split == Split::Train ? trainSamples : holdoutSamples;
  }
  /// The number of whole global batches; training continues after the last one.
  uint64_t batches(Split split) const { return samples(split) / options.batch; }
  /// "corpus.txt: 1000000 uint8 tokens, 7812 samples of 128, of which 781 are
  /// held out"; with one line for each source.
  std::string describe() const;

  /// Returns where a NaN is in the global batch of a step, as array, element
  /// and sample; empty if there is none. Used to explain a NaN loss.
  std::string findNan(Split split, uint64_t step) const;

  /// Returns a warning if in all of the first samples the labels equal the
  /// tokens, that is, they are not shifted by one; otherwise an empty string.
  std::string findUnshifted() const;

private:
  /// Files whose samples form one sequence.
  struct Source {
    DataFiles given;
    std::vector<SampleFile> files;
    /// For each split, the number of samples before each file, and the total
    /// last.
    std::vector<uint64_t> trainBefore{0}, holdoutBefore{0};

    uint64_t samples(Split split) const {
      return (split == Split::Train ? trainBefore : holdoutBefore).back();
    }
    void add(SampleFile file, double holdout);
  };
  struct Sample {
    const SampleFile *file;
    uint64_t number;
  };

  DataSource() = default;
  Result<void> countSamples();
  Sample sampleAt(Split split, uint64_t position) const;

  DataOptions options;
  std::vector<Source> sources; // one, unless they have weights
  std::optional<SourceMix> mix;
  uint64_t trainSamples = 0, holdoutSamples = 0;
  std::shared_ptr<SampleStream> stream;
  std::string streamed, streamMixture; // what the stream is, and of what
};

} // namespace polyrank::runtime
