// The memory of a GPU kernel's twin: what is there, who has accessed it, and
// how many sectors the accesses of a warp touch.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polyrank::twin {

constexpr int warpSize = 32;

/// What is wrong with a kernel.
enum class Fault {
  OutOfBounds,   // no buffer has these bytes
  Misaligned,    // the address is no multiple of the access's alignment
  Uninitialised, // nobody has written what is read
  NotWritten,    // a byte of a result that nobody writes
  Race,          // two threads access a byte, one of them writes, in any order
  Divergence     // a barrier or an exchange that some threads never reach
};

struct Finding {
  Fault fault;
  /// The place, the threads and the bytes of the first time.
  std::string text;
  int64_t count = 1;
};

/// A thread, and how many barriers it has passed: those of the block, and those
/// of its warp alone. A shuffle is no barrier: it orders no memory.
struct Moment {
  int64_t block = -1;
  int thread = 0;
  int32_t barriers = 0, warpBarriers = 0;

  int warp() const { return thread / warpSize; }
};

/// Buffers in global memory, which the caller owns, or shared memory.
struct Buffer {
  std::string name;
  void *data;
  size_t size;
  /// Bytes that threads access together: those of an element.
  unsigned elementBytes = 1;
  /// The contents are an argument's; what a kernel may read.
  bool isArgument = false;
  /// Every byte has to be written.
  bool isResult = false;
  bool isShared = false;
};

/// What the warps of a kernel move from and to global memory. An access of a
/// warp is one instruction at one time, for all its lanes that take part.
struct Traffic {
  int64_t accesses = 0;
  /// Bytes that the accesses touch; those that several lanes touch count once.
  int64_t bytesRead = 0, bytesWritten = 0;
  /// Sectors of 32 bytes that the accesses touch, and how many would hold the
  /// bytes if they were adjacent.
  int64_t sectors = 0, idealSectors = 0;
};

class Memory {
public:
  explicit Memory(std::vector<Buffer> buffers, bool countsTraffic = true);

  /// Begins a block: shared memory is NaN, and nobody has written it.
  void beginBlock();
  /// Adds what the block has accessed to the traffic.
  void endBlock();
  /// Looks for results that were not written.
  void finish();

  /// Notes an access of one thread. `site` is the number of the instruction.
  /// Returns false if no buffer has the bytes: then it must not be executed.
  bool access(const Moment &now, void *address, unsigned size,
              unsigned alignment, bool isWrite, unsigned site);
  void addFinding(Fault fault, const std::string &key, const std::string &text);

  const Traffic &getTraffic() const { return traffic; }
  std::vector<Finding> getFindings() const;

private:
  /// Who has accessed the bytes of an element.
  struct Cell {
    Moment write, read;
    /// Besides `read`, other lanes of its warp, other warps of its block, or
    /// other blocks have read since the last write.
    bool otherLanes = false, otherWarps = false, otherBlocks = false;
  };
  struct Region {
    Buffer buffer;
    std::vector<Cell> cells;
    std::vector<uint8_t> isInitialised, isWritten;
    bool contains(uintptr_t address, unsigned size) const;
  };
  struct Logged {
    unsigned site, turn;
    uintptr_t address;
    unsigned size;
    bool isWrite;
  };

  Region *find(uintptr_t address, unsigned size);
  void checkRaces(Region &region, const Moment &now, size_t offset,
                  unsigned size, bool isWrite);
  static void noteRead(Cell &cell, const Moment &now);
  static bool isWriteBefore(const Cell &cell, const Moment &now);
  static bool areReadsBefore(const Cell &cell, const Moment &now);
  void countWarp(std::vector<Logged> &log);

  std::vector<Region> regions;
  /// The region of the last access: the next one is often to the same.
  Region *latest = nullptr;
  /// Of the block that runs, by warp: its accesses to global memory; by thread
  /// and site: how many there were.
  std::vector<std::vector<Logged>> logs;
  std::vector<std::vector<unsigned>> turns;
  bool countsTraffic;
  Traffic traffic;
  std::map<std::string, Finding> findings;
};

} // namespace polyrank::twin
