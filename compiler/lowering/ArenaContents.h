// The contents of an arena: which write each byte comes from.

#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace polyrank::lowering {

/// The bytes that a value consists of: those from `offset` on of what write
/// number `write` wrote.
struct Content {
  int64_t write = 0, offset = 0;
};

/// The contents of one region of an arena.
class ArenaContents {
public:
  void write(int64_t begin, int64_t end, int64_t number) {
    cut(begin);
    cut(end);
    written.erase(written.lower_bound(begin), written.lower_bound(end));
    written[begin] = {end, number, begin};
  }
  /// Returns true if [begin, end) holds `content`.
  bool holds(int64_t begin, int64_t end, Content content) const {
    auto it = written.upper_bound(begin);
    while (begin < end) {
      if (it == written.begin())
        return false;
      const auto &[first, range] = *std::prev(it);
      if (range.end <= begin || range.write != content.write ||
          begin - range.origin != content.offset)
        return false;
      content.offset += range.end - begin;
      begin = range.end;
      ++it;
    }
    return true;
  }

private:
  struct Range {
    int64_t end, write, origin;
  };
  void cut(int64_t position) {
    auto it = written.upper_bound(position);
    if (it == written.begin())
      return;
    auto &[first, range] = *std::prev(it);
    if (first == position || range.end <= position)
      return;
    Range back = range;
    range.end = position;
    written[position] = back;
  }
  std::map<int64_t, Range> written;
};

} // namespace polyrank::lowering
