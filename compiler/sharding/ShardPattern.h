// The little language of --shard: PATTERN=DIMS[@PRIORITY].
//
//   *.c_fc.weight=[-,tensor]              parameters (and inputs) by name
//   out(transformer.h.*.ln_*)=[data,tensor,-]   outputs of modules
//
// PATTERN is a glob over names in which leading modules may be left out. DIMS
// has one entry per dim: `-` not split, `?` as propagation likes, or axes major
// to minor, `data+tensor`. Constraints of a smaller priority number come first
// where they conflict (default 0).

#pragma once

#include <string>
#include <vector>

#include "dialects/sharding/Layout.h"
#include "support/Result.h"

namespace polyrank::sharding {

struct ShardPattern {
  /// As the user wrote it.
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

  /// Fails with what is wrong and an example.
  static Result<ShardPattern> parse(llvm::StringRef text);
  /// Whether the glob matches the name, or what is left of it when leading
  /// modules are dropped.
  bool matches(llvm::StringRef name) const;
  /// The axes of dim `dim` on this mesh; fails where the mesh lacks one or one
  /// is used twice.
  Result<llvm::SmallVector<sharding::AxisRef>>
  getAxes(size_t dim, sharding::MeshAttr mesh) const;
};

/// The patterns of a file (--shard-file: one a line, `#` comments, blank lines;
/// none where its name is empty) and then those of `texts`.
Result<std::vector<ShardPattern>>
readShardPatterns(const std::string &file, llvm::ArrayRef<std::string> texts);

} // namespace polyrank::sharding
