// The links of one level of a machine, within a node or between nodes, as
// collectives use them.

#pragma once

#include "support/LinkTime.h"

#include <optional>
#include <span>
#include <vector>

namespace polyrank {

/// An algorithm of collectives; runtime/plan/CollectiveTime.h has its time.
enum class CollectiveAlgorithm : uint8_t { Halving, Ring, Tree };

/// Latency, bandwidth and algorithms of the links of one level.
struct LinkLevel {
  LinkTime link;
  /// The share of the bandwidth that messages of so many bytes reach.
  struct Reached {
    double bytes = 0, share = 1;
    friend bool operator==(const Reached &, const Reached &) = default;
  };
  /// In the order of their bytes; between two of them the share is linear in
  /// the logarithm of the bytes, and beyond the first and the last one it is
  /// theirs. If there is none, all messages reach the whole bandwidth.
  std::vector<Reached> reached = {};
  /// The algorithms of which a collective takes the fastest; not empty.
  std::vector<CollectiveAlgorithm> algorithms = {CollectiveAlgorithm::Halving};

  /// Picoseconds of each byte of a collective over `bytes` bytes.
  double timePerByte(double bytes) const;

  friend bool operator==(const LinkLevel &, const LinkLevel &) = default;
};

/// Nodes of so many devices each, and their links.
struct LinkLevels {
  int64_t devices = 1;
  LinkLevel node;
  std::optional<LinkLevel> network; // none: there is one node
  /// A collective that spans nodes may run within the nodes and between them
  /// one after the other.
  bool isHierarchical = false;

  friend bool operator==(const LinkLevels &, const LinkLevels &) = default;
};

/// Members of a group that are `stride` devices apart.
struct GroupDim {
  int64_t size = 1, stride = 1;
};
/// A group over nodes: it has `inNode` members in each of `nodes` nodes.
struct GroupPlaces {
  int64_t inNode = 1, nodes = 1;

  /// Where a group lies whose dims are these, on nodes of so many devices. The
  /// nodes divide the dims (MachineFile::checkMesh).
  static GroupPlaces of(std::span<const GroupDim> dims, int64_t devices);
};

} // namespace polyrank
