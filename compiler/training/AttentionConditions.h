// Which keys a condition shows each query.

#pragma once

#include <limits>
#include <optional>

#include "compiler/training/Compact.h"

namespace polyrank::training {

/// The dims of scores that are positions.
enum : int64_t { queryDim = 2, keyDim = 3 };

/// The keys that positions let a query see: low <= key - query <= high.
struct Band {
  int64_t low = std::numeric_limits<int32_t>::min();
  int64_t high = std::numeric_limits<int32_t>::max();

  void intersect(const Band &other) {
    low = std::max(low, other.low);
    high = std::min(high, other.high);
  }
};

/// How constant masks were read, since the layers of a model share them, and a
/// mask has as many elements as there are pairs of positions: the band in which
/// the mask is true, if it is one.
using KnownBands = llvm::DenseMap<mlir::Attribute, std::optional<Band>>;

/// query * position of the query + key * position of the key + constant.
struct Linear {
  double query = 0, key = 0, constant = 0;
};

/// The keys that a query sees: those in the band for which all other conditions
/// hold.
struct Shown {
  Band band;
  llvm::SmallVector<Compact> others;
};

/// Reads conditions on scores [batch, heads, queries, keys].
class ConditionReader {
public:
  ConditionReader(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> shape,
                  KnownBands &known)
      : builder(builder), shape(shape), known(known) {}

  /// Reads constants, and comparisons of positions, as a band.
  Shown read(const Compact &condition) {
    Shown shown;
    read(condition, shown);
    return shown;
  }
  Compact negate(const Compact &condition);
  /// Returns false when more ops have been read than a mask or a bias has:
  /// where ops share operands, reading them all would take exponential time.
  bool mayReadMore() { return opsLeft-- > 0; }
  mlir::Value makeBand(Band band);

private:
  void read(const Compact &condition, Shown &shown);
  std::optional<Linear> readLinear(const Compact &compact);
  std::optional<Band> readBand(const Compact &condition);
  std::optional<Band> readConstant(const Compact &constant);

  mlir::OpBuilder &builder;
  llvm::SmallVector<int64_t> shape;
  KnownBands &known;
  int64_t opsLeft = 256;
};

} // namespace polyrank::training
