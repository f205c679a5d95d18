// A minimum cut of a network.

#pragma once

#include <cstdint>
#include <vector>

namespace polyrank::sharding {

/// Maximum flow by blocking flows (Dinitz, 1970): O(nodes^2 edges) at worst,
/// and near linear on the networks of programs, whose paths are cut by few
/// edges.
class MinCut {
public:
  /// More than any sum of capacities.
  static constexpr int64_t infinite = int64_t(1) << 62;

  MinCut() : edgesOf(2) {}
  int getSource() const { return 0; }
  int getSink() const { return 1; }
  int addNode();
  void addEdge(int from, int to, int64_t capacity);

  /// For each node whether it is on the side of the sink, of the cut that is
  /// nearest to the sink. `capacity` is that of the cut. A path without a
  /// finite edge would be an error of the caller's.
  std::vector<bool> findSinkSide(int64_t &capacity);

private:
  struct Edge {
    int to;
    int64_t left;
  };
  bool findLevels();
  int64_t push();

  std::vector<Edge> edges; // each beside its reverse
  std::vector<std::vector<int>> edgesOf;
  std::vector<int> level;
  std::vector<size_t> next;
};

} // namespace polyrank::sharding
