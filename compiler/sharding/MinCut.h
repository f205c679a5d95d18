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
  /// A capacity that is greater than any sum of finite capacities.
  static constexpr int64_t infinite = int64_t(1) << 62;

  MinCut() : edgesOf(2) {}
  int getSource() const { return 0; }
  int getSink() const { return 1; }
  int addNode();
  void addEdge(int from, int to, int64_t capacity);

  /// Finds the minimum cut that is nearest to the sink. Returns true for each
  /// node on the sink's side, and sets `capacity` to the capacity of the cut.
  /// Every path from source to sink must have a finite edge.
  std::vector<bool> findSinkSide(int64_t &capacity);

private:
  struct Edge {
    int to;
    int64_t left;
  };
  bool findLevels();
  int64_t push();

  std::vector<Edge> edges; // each next to its reverse
  std::vector<std::vector<int>> edgesOf;
  std::vector<int> level;
  std::vector<size_t> next;
};

} // namespace polyrank::sharding
