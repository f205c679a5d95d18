// How the tokens of a file are cut into rows of the model's length.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime {

enum class DocumentRule {
  Stream, // a row every T tokens, whatever ends or begins in it
  Whole,  // documents one behind the other in a row as long as they fit whole
  Pad     // each document begins a row of its own
};

/// What becomes of documents in files of tokens.
struct DocumentOptions {
  DocumentRule rule = DocumentRule::Stream;
  std::optional<int64_t> eos = {}; // the token that ends a document
  /// The label behind the last token of a document, which is the first token of
  /// the next one, does not count.
  bool maskLabels = false;
  bool resetPositions = false;     // position_ids begin again at each document
  std::optional<int64_t> pad = {}; // what fills a row up; else `eos`, else 0

  bool needsDocuments() const {
    return rule != DocumentRule::Stream || maskLabels || resetPositions;
  }
};

/// The rows of one file.
///
/// Of a document of n tokens the first n - 1 are inputs, and the last n - 1
/// labels, so that no label is of another document; without labels all n are
/// inputs. One with more than T inputs is cut every T of them, and its last
/// part is a document by itself. With T = 4, `a` to `c` being documents of 6, 3
/// and 2 tokens, of which the last ones are not inputs:
///
///   stream  a0 a1 a2 a3 | a4 a5 b0 b1          (as if they were one)
///   pad     a0 a1 a2 a3 | a4 -- -- -- | b0 b1 -- -- | c0 -- -- --
///   whole   a0 a1 a2 a3 | a4 b0 b1 c0
///
/// Those that follow from documents need 12 bytes of memory for each of their
/// parts, and 8 for each row.
class TokenRows {
public:
  /// Inputs begin, .., begin + count - 1, next to each other in the row.
  struct Piece {
    uint64_t begin = 0;
    int64_t count = 0;
  };

  TokenRows() = default;
  /// A file of `tokens`, each of which but the last is followed by a label.
  static TokenRows ofStream(uint64_t tokens, int64_t length);
  /// Of documents that end behind these tokens, the last one with the file.
  static TokenRows ofDocuments(std::span<const uint64_t> ends,
                               DocumentRule rule, int64_t length,
                               bool haveLabels);

  uint64_t size() const { return rows; }
  uint64_t memoryBytes() const;
  /// Calls body(piece) for each of a row, in order; while it returns true.
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
  // Of documents: each row's pieces are firsts[row] .. firsts[row + 1] - 1.
  std::vector<uint64_t> firsts, begins;
  std::vector<uint32_t> counts;
};

} // namespace polyrank::runtime
