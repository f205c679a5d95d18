// A minimum cut of a network.

#include "compiler/sharding/MinCut.h"

#include <algorithm>
#include <queue>

using namespace polyrank::sharding;

int MinCut::addNode() {
  edgesOf.emplace_back();
  return static_cast<int>(edgesOf.size()) - 1;
}

void MinCut::addEdge(int from, int to, int64_t capacity) {
  edgesOf[from].push_back(static_cast<int>(edges.size()));
  edges.push_back({to, capacity});
  edgesOf[to].push_back(static_cast<int>(edges.size()));
  edges.push_back({from, 0});
}

/// Sets distances from the source in the residual network. Returns true if the
/// sink is reachable.
bool MinCut::findLevels() {
  level.assign(edgesOf.size(), -1);
  level[getSource()] = 0;
  std::queue<int> open({getSource()});
  while (!open.empty()) {
    int node = open.front();
    open.pop();
    for (int edge : edgesOf[node])
      if (edges[edge].left > 0 && level[edges[edge].to] < 0) {
        level[edges[edge].to] = level[node] + 1;
        open.push(edges[edge].to);
      }
  }
  return level[getSink()] >= 0;
}

/// Pushes flow along one shortest path and returns it; 0 if no path is left.
/// The path is a list, because programs are too deep for recursion.
int64_t MinCut::push() {
  std::vector<int> path;
  int node = getSource();
  while (node != getSink()) {
    bool found = false;
    for (size_t &i = next[node]; i < edgesOf[node].size(); ++i) {
      int edge = edgesOf[node][i];
      if (edges[edge].left > 0 && level[edges[edge].to] == level[node] + 1) {
        path.push_back(edge);
        node = edges[edge].to;
        found = true;
        break;
      }
    }
    if (found)
      continue;
    if (path.empty())
      return 0;
    // A dead end.
    node = edges[path.back() ^ 1].to;
    path.pop_back();
    ++next[node];
  }
  int64_t flow = infinite;
  for (int edge : path)
    flow = std::min(flow, edges[edge].left);
  for (int edge : path) {
    edges[edge].left -= flow;
    edges[edge ^ 1].left += flow;
  }
  return flow;
}

std::vector<bool> MinCut::findSinkSide(int64_t &capacity) {
  capacity = 0;
  while (findLevels()) {
    next.assign(edgesOf.size(), 0);
    while (int64_t flow = push())
      capacity += flow;
  }
  // The nodes that still reach the sink in the residual network.
  std::vector<bool> side(edgesOf.size(), false);
  side[getSink()] = true;
  std::queue<int> open({getSink()});
  while (!open.empty()) {
    int node = open.front();
    open.pop();
    for (int edge : edgesOf[node])
      if (edges[edge ^ 1].left > 0 && !side[edges[edge].to]) {
        side[edges[edge].to] = true;
        open.push(edges[edge].to);
      }
  }
  return side;
}
