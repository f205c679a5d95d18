// An order of ops as blocks between the places where it may be cut, and the
// costs of intervals of blocks.

#pragma once

#include <algorithm>
#include <limits>

#include "compiler/stages/StageCut.h"

namespace polyrank::stages {

class CutChain {
public:
  /// Block b has the ops from places[b] to places[b + 1]. The first place is 0,
  /// the last is the number of ops.
  CutChain(const CutProblem &problem, std::vector<int> places);

  int size() const { return static_cast<int>(places.size()) - 1; }
  int getPlace(int block) const { return places[block]; }
  /// Picoseconds of the blocks before `block`, without transfers.
  int64_t getTimeBefore(int block) const { return time[block]; }

  struct Interval {
    int begin;
    int64_t time;             // with transfers
    int64_t received;         // bytes
    int64_t parameters, kept; // bytes; `kept` is per microbatch
  };
  /// Visits the intervals that end just before block `end`, from the shortest
  /// to the longest whose ops alone take at most `limit`.
  template <typename Visit>
  void visitIntervals(int end, int64_t limit, Visit visit) const;
  /// The number of intervals that visitIntervals visits.
  int64_t countIntervals(int end, int64_t limit) const;

private:
  static constexpr int never = std::numeric_limits<int>::max();
  /// A value that a block makes and that other blocks use; `first` and `last`
  /// are the first and last of these blocks.
  struct Made {
    int64_t bytes, messages;
    int first, last;
  };
  /// A value of an earlier block, or a parameter, that a block uses; `next` is
  /// the first later block that uses it.
  struct Used {
    int64_t bytes, messages;
    int next;
  };
  struct Block {
    std::vector<Made> made;
    std::vector<Used> used, parameters;
    /// Bytes of the parameters that no earlier block uses.
    int64_t owned = 0;
  };

  std::vector<int> places;
  std::vector<Block> blocks;
  std::vector<int64_t> time, kept; // prefix sums over the blocks
  LinkTime link;
};

template <typename Visit>
void CutChain::visitIntervals(int end, int64_t limit, Visit visit) const {
  int64_t received = 0, sent = 0, messages = 0, parameters = 0;
  for (int begin = end - 1; begin >= 0; --begin) {
    int64_t own = time[end] - time[begin];
    if (own > limit)
      return;
    for (const Made &value : blocks[begin].made) {
      if (value.last >= end) {
        sent += value.bytes;
        messages += value.messages;
      }
      if (value.first < end) {
        received -= value.bytes;
        messages -= value.messages;
      }
    }
    for (const Used &value : blocks[begin].used)
      if (value.next >= end) {
        received += value.bytes;
        messages += value.messages;
      }
    for (const Used &parameter : blocks[begin].parameters)
      if (parameter.next >= end)
        parameters += parameter.bytes;
    parameters += blocks[begin].owned;
    visit(Interval{begin, own + transferTime(link, messages, received + sent),
                   received, parameters, kept[end] - kept[begin]});
  }
}

inline int64_t CutChain::countIntervals(int end, int64_t limit) const {
  auto last = time.begin() + end;
  return last - std::lower_bound(time.begin(), last, *last - limit);
}

} // namespace polyrank::stages
