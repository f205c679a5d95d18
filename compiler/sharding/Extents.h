// Padded extents of dims that are connected.
//
// Dims that are connected, as a value's are with its users', have padded
// extents in fixed ratios (one, but for the windows of a halo factor). Together
// they are a class, and one number, its unit, says how large all of them are.

#pragma once

#include <numeric>
#include <optional>

#include "compiler/sharding/Label.h"
#include "compiler/sharding/Reach.h"
#include "llvm/ADT/DenseSet.h"

namespace polyrank::sharding {

/// A positive fraction in lowest terms.
struct Ratio {
  int64_t numerator = 1, denominator = 1;

  Ratio() = default;
  Ratio(int64_t above, int64_t below) {
    int64_t common = std::gcd(above, below);
    numerator = above / common;
    denominator = below / common;
  }
  Ratio inverse() const { return Ratio(denominator, numerator); }
  Ratio operator*(const Ratio &other) const {
    Ratio left(numerator, other.denominator),
        right(other.numerator, denominator);
    return Ratio(left.numerator * right.numerator,
                 left.denominator * right.denominator);
  }
  bool operator<(const Ratio &other) const {
    return numerator * other.denominator < other.numerator * denominator;
  }
};

class Extents {
public:
  /// The extents of a class are divisible by the product of all atoms that may
  /// split some dim of it. Where a neighbour has its layout already
  /// (NodeKind::Fixed), the class has that layout's extent.
  Extents(const SideTable &table, const Reach &reach);

  /// The padded extent of a node's factor; 0 where its own is right.
  int64_t get(int node, int factor) const;
  /// The extents that suffice where each node has the label of number
  /// `chosen[node]`: they may be smaller, as not all that may be split is. None
  /// where no extent is smaller. Labels depend on extents, so with the new ones
  /// they have to be enumerated again.
  std::optional<Extents> tightened(const SideTable &table, const Labels &labels,
                                   llvm::ArrayRef<int> chosen) const;

private:
  void connect(const SideTable &table);
  void keepFixed(const SideTable &table);
  bool setUnits(const SideTable &table,
                const llvm::DenseMap<int, int64_t> &blocks,
                llvm::ArrayRef<char> split);
  int itemOf(const Node &node, int factor) const {
    return firstFactor[node.number] + factor;
  }

  /// The factors of all nodes are *items*: those of a node from here on.
  llvm::SmallVector<int, 0> firstFactor;
  /// Per item its class, named by one of its items, and its extent over the
  /// unit of the class.
  llvm::SmallVector<int, 0> classOf;
  llvm::SmallVector<Ratio, 0> ratios;
  /// Per class its unit; none where nothing splits it.
  llvm::DenseMap<int, Ratio> units;
  /// Classes whose extent a fixed neighbour has chosen.
  llvm::DenseSet<int> fixed;
};

} // namespace polyrank::sharding
