// The samples of one data file.

#pragma once

#include "runtime/data/TokenRows.h"
#include "support/BatchDim.h"
#include "support/arrays/StoredArray.h"

namespace polyrank::runtime {

/// One input of a plan, without its microbatch and batch dims.
struct InputSpec {
  std::string name;
  bool labels = false; // token files: the next token instead of the token
  ElementType dtype = ElementType::F32;
  std::vector<int64_t> rowShape;
  IndexRange range = {};
  /// The dim of an array along which its samples lie; `noBatch` if the array is
  /// one row that all samples share.
  int64_t batchDim = 0;

  bool hasBatch() const { return batchDim != noBatch; }
  /// The product of the row's dims from dim `from` on.
  int64_t rowElements(int64_t from = 0) const;
  /// Returns true if an array of this shape holds samples of this input.
  bool takes(const std::vector<int64_t> &shape) const;
  int64_t rowBytes() const { return rowElements() * bytesOf(dtype); }
};

/// Returns the path of the marks of a file of tokens: its own with .mask in the
/// place of its suffix. They are one byte for each token: 1 if it is learned as
/// a label, 0 if not (a prompt).
std::string markFileOf(const std::string &tokens);

/// A data file:
///   NAME.npz            one array per input, named as it (labels: its name, or
///                       "labels"), with a dim of samples where the model has
///                       the batch, and without one where it has none
///   NAME.npy            one dim of integers: tokens
///   NAME.bin .u16       tokens, uint16, as nanoGPT writes them
///   NAME.u32            tokens, uint32
///   NAME.txt .u8        bytes, each a token
///   NAME.idx and .bin   tokens and documents, as Megatron-LM writes them;
///   given
///                       by either name, or by NAME
/// Sample j of n tokens in rows of T is tokens [jT, jT + T), its labels are
/// [jT + 1, jT + T + 1); there are (n - 1) / T samples. TokenRows.h has the
/// other rules. Inputs called position_ids and attention_mask come from the
/// rows, too. A file of marks beside the tokens (markFileOf) says which of them
/// are no labels.
///
/// Reading is const and may run on several threads. Uncompressed arrays stay in
/// the file, however large they are.
class SampleFile {
public:
  /// Opens the file and checks that it has everything the inputs need, types
  /// and shapes included. `tokenType` is the type of the values in a file of
  /// raw tokens (tokenTypeOf); if empty it follows from the file's name, and
  /// fails if the bytes contradict it.
  static Result<SampleFile> open(const std::string &path,
                                 const std::string &tokenType,
                                 const DocumentOptions &documents,
                                 std::span<const InputSpec> inputs);

  const std::string &path() const { return name; }
  /// Identifies this file, and the index of a pair, among all other files.
  Result<std::string> identity() const;
  uint64_t samples() const { return numSamples; }
  /// The number of inputs, and each of them.
  size_t inputs() const { return columns.size(); }
  const InputSpec &input(size_t number) const { return columns[number].spec; }

  /// Reads input number `input` of a sample: dense, in the input's dtype.
  /// `stored` is a scratch buffer that the caller keeps between calls.
  Result<void> read(uint64_t sample, size_t input,
                    std::vector<std::byte> &stored, std::byte *into) const;

  /// Reads all samples, and fails unless every value is valid for its input.
  Result<void> checkAll() const;
  /// Runs the same check faster: tokens that are all in range are not
  /// converted.
  Result<void> checkRanges() const;
  /// The number of bytes that `checkRanges` reads.
  uint64_t checkedBytes() const;
  /// The bytes held in memory: inflated arrays, rows of documents.
  uint64_t memoryBytes() const;

  /// "corpus.txt: 1000000 uint8 tokens, 7812 samples of 128".
  std::string describe() const;
  uint64_t tokens() const { return isTokens ? arrays[0].elements() : 0; }

  /// Returns the first NaN of an input in a sample, or an empty string: "x.npz,
  /// array 'x': value nan at element 7 (sample 0)".
  std::string findNan(uint64_t sample, size_t input) const;
  /// True if the input's values come from an array of their own, not from a
  /// stream of tokens.
  bool isWhole(size_t input) const {
    return columns[input].kind == Kind::Values;
  }

private:
  enum class Kind { Values, Tokens, Labels, Positions, Mask };
  struct Column {
    InputSpec spec;
    Kind kind = Kind::Values;
    size_t array = 0; // the array that it is read from
  };

  static Result<SampleFile> openTokens(StoredArray tokens,
                                       std::vector<uint64_t> documentEnds,
                                       const DocumentOptions &documents,
                                       std::span<const InputSpec> inputs);
  static Result<SampleFile> openSet(const std::string &path,
                                    std::span<const InputSpec> inputs);
  static Result<SampleFile> openPair(const std::string &index,
                                     const DocumentOptions &documents,
                                     std::span<const InputSpec> inputs);
  Result<void> addTokenColumns(std::span<const InputSpec> inputs);
  Result<void> cutRows(std::vector<uint64_t> documentEnds);
  Result<std::vector<uint64_t>> findDocuments() const;
  Result<void> readTokens(uint64_t sample, const Column &column,
                          std::vector<std::byte> &stored,
                          std::byte *into) const;
  /// Returns the element of the column's array at which the sample's row
  /// begins, or, if the row consists of several runs, its run number `outer`.
  int64_t elementOf(const Column &column, uint64_t sample, int64_t outer) const;
  /// Reads elements [first, first + count) of the column's array.
  Result<void> readValues(uint64_t sample, const Column &column, int64_t first,
                          int64_t count, std::vector<std::byte> &stored,
                          std::byte *into) const;
  /// Opens the file of marks (arrays[1]).
  Result<void> openMarks();
  /// Makes the labels of a piece that do not count the ignored label.
  Result<void> ignoreLabels(const Column &column, const TokenRows::Piece &piece,
                            const std::vector<int64_t> &ends,
                            std::byte *labels) const;
  /// Finds which of a piece's tokens are the last of their document.
  Result<void> findEnds(const TokenRows::Piece &piece,
                        std::vector<int64_t> &ends) const;
  /// "x.npz, array 'x': value nan at element 7 (sample 0)".
  std::string describeValue(const StoredArray &array, const std::string &value,
                            int64_t element, uint64_t sample) const;

  std::string name;
  std::string besideIdentity; // of a Megatron pair's index, and of marks
  std::vector<StoredArray> arrays;
  std::vector<Column> columns;
  uint64_t numSamples = 0;
  // For token files only.
  bool isTokens = false;
  bool isRaw = false; // the file does not state the tokens' type
  DocumentOptions documents;
  TokenRows rows;
  std::vector<uint64_t> documentEnds; // of a Megatron pair, if needed
};

} // namespace polyrank::runtime
