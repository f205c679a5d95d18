// The index of Megatron-LM's datasets: NAME.idx beside the tokens in NAME.bin.

#pragma once

#include "support/File.h"
#include "support/arrays/Values.h"

#include <vector>

namespace polyrank::runtime {

/// The contents of an index, after the checks below.
struct MegatronIndex {
  ElementType type = ElementType::U16;
  uint64_t tokens = 0;
  /// The end of each document, in tokens (one after its last token); documents
  /// without tokens are left out.
  std::vector<uint64_t> documentEnds;
};

/// Returns true if the file begins like an index, and false if there is no such
/// file. An error means that the system cannot read it now.
Result<bool> isMegatronIndex(const std::string &path);

/// Reads `index`, whose tokens are in a file of `dataBytes` bytes:
///
///   "MMIDIDX\0\0", u64 version 1, u8 type of the tokens (1 u8, 2 i8, 3 i16,
///   4 i32, 5 i64, 8 u16), u64 S sequences, u64 D bounds of documents, i32
///   lengths[S] in tokens, i64 offsets[S] in bytes, i64 bounds[D] in sequences
///
/// Refuses everything that Megatron-LM does not write:
///   1. another beginning or version, a type that is no integer, a file of
///      another size than S and D say (with modes of several media, too);
///   2. a sequence of negative length, or one that does not begin where the one
///      before it ended, the first at 0;
///   3. tokens that end elsewhere than the data;
///   4. bounds of documents that do not begin with 0, fall, or do not end with
///   S.
/// Every length and offset is checked; only the bounds are kept in memory.
Result<MegatronIndex> readMegatronIndex(const InputFile &index,
                                        uint64_t dataBytes);

} // namespace polyrank::runtime
