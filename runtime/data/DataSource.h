// Where the rows of a global batch come from, on whichever rank asks for them.

#pragma once

#include "runtime/data/SampleOrder.h"
#include "support/arrays/StoredArray.h"

namespace polyrank::runtime {

/// One input of a plan, without its microbatch and batch dims.
struct InputSpec {
  std::string name;
  bool labels = false; // token files: the next token instead of the token
  DType dtype = DType::F32;
  std::vector<int64_t> rowShape;
  IndexRange range = {};

  int64_t rowElements() const;
  int64_t rowBytes() const { return rowElements() * bytesOf(dtype); }
};

struct DataOptions {
  std::string path;
  /// Of the values in a file of raw tokens: uint8, uint16 or uint32. Empty: by
  /// the file's name, see DataSource.
  std::string tokenType = {};
  uint64_t batch = 1; // samples per step, over all ranks and microbatches
  SampleOrder order = SampleOrder::Random;
  uint64_t seed = 0;
  double holdout = 0; // fraction of the samples, the last ones, kept apart
};

enum class Split { Train, Holdout };

/// The samples of a data file:
///   NAME.npz            one array per input, named as it (labels: its name, or
///                       "labels"), with a leading dim of samples
///   NAME.npy            one dim of integers: tokens
///   NAME.bin .u16       tokens, uint16, as nanoGPT writes them
///   NAME.u32            tokens, uint32
///   NAME.txt .u8        bytes, each a token
/// Sample j of n tokens in rows of T is tokens [jT, jT + T), its labels are
/// [jT + 1, jT + T + 1); there are (n - 1) / T samples.
///
/// Step s takes the positions sB .. sB + B - 1 of the order, whatever the
/// number of ranks. Held-out samples are taken in the file's order. Reading is
/// const and may run on several threads.
class DataSource {
public:
  /// Checks that the file has everything the inputs need, types and shapes
  /// included, and at least one global batch of each split that is in use.
  static Result<DataSource> open(const DataOptions &options,
                                 std::span<const InputSpec> inputs);

  /// Rows [begin, end) of the global batch of `step`, 0 <= begin <= end <= B,
  /// of input number `input`, dense, in the input's dtype.
  Result<void> read(Split split, uint64_t step, size_t input, int64_t begin,
                    int64_t end, std::byte *into) const;

  /// Reads all samples, held-out ones too: may every value go to its input?
  Result<void> checkAll() const;
  /// Bytes of memory in which compressed arrays are inflated, in each process.
  uint64_t memoryBytes() const;

  uint64_t samples(Split split) const {
    return split == Split::Train ? trainSamples : holdoutSamples;
  }
  /// Whole global batches; training goes on after the last one.
  uint64_t batches(Split split) const { return samples(split) / options.batch; }
  /// "corpus.txt: 1000000 uint8 tokens, 7812 samples of 128, of which 781 are
  /// held out"
  std::string describe() const;

  /// Where a NaN is in the global batch of a step, as array, element and
  /// sample; empty where there is none. For a loss that became NaN.
  std::string findNan(Split split, uint64_t step) const;

  /// A warning where labels for each token are the tokens themselves, in all of
  /// the first samples; empty where they are not.
  std::string findUnshifted() const;

private:
  struct Column {
    InputSpec spec;
    size_t array = 0;   // where it is read from
    int64_t stride = 0; // elements from one sample to the next
    int64_t shift = 0;  // labels of tokens
  };

  DataSource() = default;
  static Result<DataSource> openTokens(StoredArray tokens,
                                       std::span<const InputSpec> inputs);
  static Result<DataSource> openSet(const std::string &path,
                                    std::span<const InputSpec> inputs);
  Result<void> reserveHoldout();
  Result<void> readSample(const Column &column, uint64_t sample,
                          std::vector<std::byte> &stored,
                          std::byte *into) const;
  uint64_t sampleOf(Split split, uint64_t step, int64_t row) const;
  /// "x.npz, array 'x': value nan at element 7 (sample 0)".
  static std::string describeValue(const StoredArray &array,
                                   const std::string &value, int64_t element,
                                   uint64_t sample);

  DataOptions options;
  std::vector<StoredArray> arrays;
  std::vector<Column> columns;
  uint64_t totalSamples = 0, trainSamples = 0, holdoutSamples = 0;
};

} // namespace polyrank::runtime
