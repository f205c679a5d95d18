// The rules by which a file's tokens are cut into rows of the model's length.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime {

enum class DocumentRule {
  Stream, // a row every T tokens, across document bounds
  Whole,  // packs as many whole documents into a row as fit
  Pad     // each document begins a new row
};

/// Which token is the label of a token.
enum class LabelRule {
  Next, // the next one
  Same  // itself: the model compares its outputs with labels one further
};

/// How documents in files of tokens are handled, and what is learned of them.
struct DocumentOptions {
  DocumentRule rule = DocumentRule::Stream;
  std::optional<int64_t> eos = {}; // the token that ends a document
  /// The label of a document's last token, which is the first token of the next
  /// document, is ignored.
  bool maskLabels = false;
  bool resetPositions = false;     // position_ids restart at each document
  std::optional<int64_t> pad = {}; // fills up rows; by default `eos`, else 0
  /// If it is given, an input of the model called `labels` has labels, too.
  std::optional<LabelRule> labels = {};
  /// Labels that a file of marks beside the tokens marks with 0 are ignored
  /// (markFileOf).
  bool maskPrompts = false;

  bool isShifted() const { return labels != LabelRule::Same; }
  bool needsDocuments() const {
    return rule != DocumentRule::Stream || maskLabels || resetPositions;
  }
  /// True if any option is given that files of tokens alone obey.
  bool isAny() const {
    return needsDocuments() || eos || pad || labels || maskPrompts;
  }
};

/// The rows of one file.
///
/// In a document of n tokens the first n - 1 are inputs, and the last n - 1 are
/// labels, so that no label belongs to another document; without labels all n
/// are inputs. A document with more than T inputs is cut after every T of them,
/// and its last part counts as a document by itself. For example, T = 4 and
/// documents `a` to `c` of 6, 3 and 2 tokens, whose last tokens are not inputs:
///
///   stream  a0 a1 a2 a3 | a4 a5 b0 b1          (as if they were one)
///   pad     a0 a1 a2 a3 | a4 -- -- -- | b0 b1 -- -- | c0 -- -- --
///   whole   a0 a1 a2 a3 | a4 b0 b1 c0
///
/// Rows made of documents take 12 bytes of memory for each piece, and 8 for
/// each row.
class TokenRows {
public:
  /// Consecutive inputs begin, .., begin + count - 1 of a row.
  struct Piece {
    uint64_t begin = 0;
    int64_t count = 0;
  };

  TokenRows() = default;
  /// The rows of a file of `tokens` tokens, in which the label of each token is
  /// the next one, if they have such labels.
  static TokenRows ofStream(uint64_t tokens, int64_t length,
                            bool haveLabels = true);
  /// The rows of documents that end at `ends` (one after their last tokens),
  /// the last one with the file.
  static TokenRows ofDocuments(std::span<const uint64_t> ends,
                               DocumentRule rule, int64_t length,
                               bool haveLabels);

  uint64_t size() const { return rows; }
  uint64_t memoryBytes() const;
  /// Calls body(piece) for each piece of a row, in order, while it returns
  /// true.
  template <typename Body>
  void forEachPiece(uint64_t row, const Body &body) const {
    if (firsts.empty()) {
      body(Piece{row * uint64_t(length), length});
      return;
    }
    for (uint64_t p = firsts[row]; p < firsts[row + 1]; ++p)
      if (!body(Piece{begins[p], counts[p]}))
        return;
  }

private:
  int64_t length = 1;
  uint64_t rows = 0;
  // For documents: the pieces of a row are firsts[row] .. firsts[row + 1] - 1.
  std::vector<uint64_t> firsts, begins;
  std::vector<uint32_t> counts;
};

} // namespace polyrank::runtime
