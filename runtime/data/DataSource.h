// Where the rows of a global batch come from, on whichever rank asks for them.

#pragma once

#include "runtime/data/DataFiles.h"
#include "runtime/data/SampleFile.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/SourceMix.h"

namespace polyrank::runtime {

struct DataOptions {
  /// Files, patterns, and their weights: see findDataFiles.
  std::vector<std::string> paths;
  /// Of the values in a file of raw tokens: uint8, uint16, uint32, int32 or
  /// int64. Empty: by the file's name, see SampleFile.
  std::string tokenType = {};
  DocumentOptions documents = {};
  uint64_t batch = 1; // samples per step, over all ranks and microbatches
  SampleOrder order = SampleOrder::Random;
  uint64_t seed = 0;
  double holdout = 0; // fraction of each file's samples, the last ones
  /// A split may have fewer samples than a batch, but one at least.
  bool allowPart = false;
};

enum class Split { Train, Holdout };

/// The samples of some rows: row b has that of position first + b % count of
/// the split, the positions of training being those of the order, and those
/// that are held out in the files' order.
struct Batch {
  Split split = Split::Train;
  uint64_t first = 0, count = 1;
};

/// The samples of all data files (SampleFile.h). Those of several files are one
/// long sequence; with weights each source has an order and epochs of its own,
/// and SourceMix says whose turn it is.
///
/// Step s takes the positions sB .. sB + B - 1 of the order, whatever the
/// number of ranks. Held-out samples are taken in the files' order. Reading is
/// const and may run on several threads.
class DataSource {
public:
  /// Checks that the files have everything the inputs need, types and shapes
  /// included, and at least one global batch of each split that is in use.
  static Result<DataSource> open(const DataOptions &options,
                                 std::span<const InputSpec> inputs);

  /// Rows [begin, end) of a batch, 0 <= begin <= end <= B, of input number
  /// `input`, dense, in the input's dtype.
  Result<void> read(const Batch &batch, size_t input, int64_t begin,
                    int64_t end, std::byte *into) const;
  /// The same of the global batch of `step`.
  Result<void> read(Split split, uint64_t step, size_t input, int64_t begin,
                    int64_t end, std::byte *into) const {
    return read(batchOf(split, step), input, begin, end, into);
  }
  Batch batchOf(Split split, uint64_t step) const {
    return {split, step * options.batch, options.batch};
  }
  /// Batches in which each sample of a split counts alike: whole ones, and of
  /// those that are left, r < B, batches in which as many as divide B stand so
  /// often that they fill it. Their `count` is the number of samples in each.
  std::vector<Batch> batchesOfAll(Split split) const;

  /// Reads all samples, held-out ones too: may every value go to its input?
  Result<void> checkAll() const;
  /// The same where it takes seconds at most: of files that have up to
  /// `checkedBytes`. Nothing that a step reads is out of range then, unless
  /// somebody changes the files.
  Result<void> checkRanges() const;
  bool isChecked() const;
  static constexpr uint64_t checkedBytes = uint64_t(1) << 30;

  bool hasWeights() const { return mix.has_value(); }
  /// Bytes of memory that each process needs for it.
  uint64_t memoryBytes() const;
  /// Tells the files that are open here from all others (InputFile::identity).
  Result<std::string> identity() const;
  /// The paths of all files, in their order.
  std::vector<std::string> paths() const;

  uint64_t samples(Split split) const {
    return split == Split::Train ? trainSamples : holdoutSamples;
  }
  /// Whole global batches; training goes on after the last one.
  uint64_t batches(Split split) const { return samples(split) / options.batch; }
  /// "corpus.txt: 1000000 uint8 tokens, 7812 samples of 128, of which 781 are
  /// held out"; of several sources one line each.
  std::string describe() const;

  /// Where a NaN is in the global batch of a step, as array, element and
  /// sample; empty where there is none. For a loss that became NaN.
  std::string findNan(Split split, uint64_t step) const;

  /// A warning where labels for each token are the tokens themselves, in all of
  /// the first samples; empty where they are not.
  std::string findUnshifted() const;

private:
  /// Files whose samples follow each other.
  struct Source {
    DataFiles given;
    std::vector<SampleFile> files;
    /// Of each split, how many samples are before each file; and in all.
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
};

} // namespace polyrank::runtime
