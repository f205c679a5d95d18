// Padded extents of connected dims.
//
// Dims are connected if one is a value's dim at its def and the other the same
// dim at a use. Their padded extents have a fixed ratio (one, except for the
// windows of a halo factor). All connected dims form a class, whose one number,
// the unit, determines all their extents.

#pragma once

#include <numeric>
#include <optional>

#include "compiler/sharding/Candidate.h"
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
  /// Makes the extents of a class divisible by the product of all sub-axes that
  /// may split some dim of it. If a neighbour has its layout already
  /// (NodeKind::Fixed), the class has that layout's extent.
  Extents(const SideTable &table, const Reach &reach);

  /// The padded extent of a node's factor; 0 if its class determines none.
  int64_t get(int node, int factor) const;
  /// The smaller extents that suffice if each node has the candidate of number
  /// `chosen[node]`, since not all that may be split is split. None if no
  /// extent shrinks. Candidates depend on extents, so they must be enumerated
  /// again with the new ones.
  std::optional<Extents> tightened(const SideTable &table,
                                   const Candidates &candidates,
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

  /// The factors of all nodes are *items*. Per node: its first item.
  llvm::SmallVector<int, 0> firstFactor;
  /// Per item: its class, named by one of its items, and the item's extent
  /// divided by the unit of the class.
  llvm::SmallVector<int, 0> classOf;
  llvm::SmallVector<Ratio, 0> ratios;
  /// Per class: its unit; absent if nothing splits the class.
  llvm::DenseMap<int, Ratio> units;
  /// Classes whose extent a neighbour of kind Fixed determines.
  llvm::DenseSet<int> fixed;
};

} // namespace polyrank::sharding
