// The syntax of --shard: PATTERN=DIMS[@PRIORITY].
//
//   *.c_fc.weight=[-,tensor]              parameters (and inputs) by name
//   out(transformer.h.*.ln_*)=[data,tensor,-]   outputs of modules
//
// PATTERN is a glob over names; leading modules may be left out. DIMS has one
// entry per dim: `-` not split, `?` as propagation likes, or axes major to
// minor, `data+tensor`. If constraints conflict, the one with the smaller
// priority number wins (default 0).

#pragma once

#include <string>
#include <vector>

#include "dialects/sharding/Layout.h"
#include "support/Result.h"

namespace polyrank::sharding {

struct ShardPattern {
  /// The whole text, as the user wrote it.
  std::string text;
  /// The glob, without `out(` and `)`.
  std::string pattern;
  bool isOutput = false;
  struct Dim {
    bool open = false;
    std::vector<std::string> axes;
  };
  std::vector<Dim> dims;
  int64_t priority = 0;

  /// Parses a pattern. The error says what is wrong and gives an example.
  static Result<ShardPattern> parse(llvm::StringRef text);
  /// Returns true if the glob matches the name or a suffix of it without
  /// leading modules.
  bool matches(llvm::StringRef name) const;
  /// The axes of dim `dim` on this mesh. Fails if the mesh lacks one, or if one
  /// is used twice.
  Result<llvm::SmallVector<sharding::AxisRef>>
  getAxes(size_t dim, sharding::MeshAttr mesh) const;
};

/// The patterns of a file, then those of `texts`. The file (--shard-file) has
/// one pattern per line, `#` comments and blank lines; an empty name means no
/// file.
Result<std::vector<ShardPattern>>
readShardPatterns(const std::string &file, llvm::ArrayRef<std::string> texts);

} // namespace polyrank::sharding
