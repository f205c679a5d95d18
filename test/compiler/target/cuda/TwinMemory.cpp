// The memory of a GPU kernel's twin: bounds, initialisation, races, sectors.

#include "test/compiler/target/cuda/TwinMemory.h"

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace polyrank::twin;

/// Bytes that the memory moves at once.
static constexpr uintptr_t sectorSize = 32;

Memory::Memory(std::vector<Buffer> buffers, bool countsTraffic)
    : countsTraffic(countsTraffic) {
  for (Buffer &buffer : buffers) {
    Region &region = regions.emplace_back();
    size_t size = buffer.size;
    region.cells.resize((size + buffer.elementBytes - 1) / buffer.elementBytes);
    region.isInitialised.resize(size, buffer.isArgument);
    region.isWritten.resize(size);
    region.buffer = std::move(buffer);
  }
}

void Memory::beginBlock() {
  for (Region &region : regions) {
    if (!region.buffer.isShared)
      continue;
    std::memset(region.buffer.data, 0xFF, region.buffer.size);
    std::fill(region.isInitialised.begin(), region.isInitialised.end(), 0);
    std::fill(region.cells.begin(), region.cells.end(), Cell());
  }
}

void Memory::addFinding(Fault fault, const std::string &key,
                        const std::string &text) {
  auto [entry, isNew] = findings.try_emplace(key, Finding{fault, text});
  if (!isNew)
    ++entry->second.count;
}

std::vector<Finding> Memory::getFindings() const {
  std::vector<Finding> result;
  for (const auto &[key, finding] : findings)
    result.push_back(finding);
  return result;
}

bool Memory::Region::contains(uintptr_t address, unsigned size) const {
  auto begin = reinterpret_cast<uintptr_t>(buffer.data);
  return address >= begin && address - begin + size <= buffer.size;
}

Memory::Region *Memory::find(uintptr_t address, unsigned size) {
  if (latest && latest->contains(address, size))
    return latest;
  for (Region &region : regions)
    if (region.contains(address, size))
      return latest = &region;
  return nullptr;
}

static std::string describe(const Moment &moment) {
  return "thread " + std::to_string(moment.thread) + " of block " +
         std::to_string(moment.block);
}

bool Memory::access(const Moment &now, void *pointer, unsigned size,
                    unsigned alignment, bool isWrite, unsigned site) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  const char *verb = isWrite ? "writes" : "reads";
  auto keyOf = [&](const char *kind) {
    return std::string(kind) + "/" + std::to_string(site);
  };
  Region *region = find(address, size);
  if (!region) {
    std::string text = describe(now) + " " + verb + " " + std::to_string(size) +
                       " bytes outside of every buffer";
    for (const Region &other : regions) {
      auto begin = reinterpret_cast<uintptr_t>(other.buffer.data);
      int64_t offset = static_cast<int64_t>(address - begin);
      if (offset > -4096 &&
          offset < static_cast<int64_t>(other.buffer.size) + 4096)
        text += "; they begin at byte " + std::to_string(offset) + " of the " +
                std::to_string(other.buffer.size) + " of " + other.buffer.name;
    }
    addFinding(Fault::OutOfBounds, keyOf("bounds"), text);
    return false;
  }
  const std::string &name = region->buffer.name;
  size_t offset = address - reinterpret_cast<uintptr_t>(region->buffer.data);
  auto bytes = [&] {
    return std::to_string(size) + " bytes at " + std::to_string(offset) +
           " of " + name;
  };
  if (address % alignment != 0)
    addFinding(Fault::Misaligned, keyOf("alignment"),
               describe(now) + " " + verb + " " + bytes() +
                   ", which is no multiple of " + std::to_string(alignment));
  uint8_t *initialised = region->isInitialised.data() + offset;
  if (isWrite) {
    std::fill_n(initialised, size, 1);
    std::fill_n(region->isWritten.data() + offset, size, 1);
  } else if (std::count(initialised, initialised + size, 0)) {
    addFinding(Fault::Uninitialised, keyOf("initialised"),
               describe(now) + " reads " + bytes() +
                   ", which nobody has written");
  }
  checkRaces(*region, now, offset, size, isWrite);
  if (countsTraffic && !region->buffer.isShared) {
    if (static_cast<size_t>(now.warp()) >= logs.size())
      logs.resize(now.warp() + 1);
    if (static_cast<size_t>(now.thread) >= turns.size())
      turns.resize(now.thread + 1);
    std::vector<unsigned> &counts = turns[now.thread];
    if (site >= counts.size())
      counts.resize(site + 1);
    logs[now.warp()].push_back({site, counts[site]++, address, size, isWrite});
  }
  return true;
}

bool Memory::isWriteBefore(const Cell &cell, const Moment &now) {
  const Moment &then = cell.write;
  if (then.block < 0)
    return true;
  if (then.block != now.block)
    return false;
  return then.thread == now.thread || then.barriers < now.barriers ||
         (then.warp() == now.warp() && then.warpBarriers < now.warpBarriers);
}

bool Memory::areReadsBefore(const Cell &cell, const Moment &now) {
  const Moment &then = cell.read;
  if (then.block < 0)
    return true;
  if (cell.otherBlocks || then.block != now.block)
    return false;
  if (then.barriers < now.barriers)
    return true;
  if (cell.otherWarps || then.warp() != now.warp())
    return false;
  return then.warpBarriers < now.warpBarriers ||
         (!cell.otherLanes && then.thread == now.thread);
}

/// Earlier reads that are before everything that comes after `now` need not be
/// kept: those before a barrier of the block, or of the warp.
void Memory::noteRead(Cell &cell, const Moment &now) {
  const Moment &then = cell.read;
  if (then.block >= 0 && then.block != now.block)
    cell.otherBlocks = true;
  if (then.block != now.block || then.barriers < now.barriers) {
    cell.read = now;
    cell.otherLanes = cell.otherWarps = false;
  } else if (then.warp() != now.warp()) {
    cell.otherWarps = true;
  } else if (then.warpBarriers < now.warpBarriers) {
    cell.read = now;
    cell.otherLanes = false;
  } else if (then.thread != now.thread) {
    cell.otherLanes = true;
  }
}

void Memory::checkRaces(Region &region, const Moment &now, size_t offset,
                        unsigned size, bool isWrite) {
  unsigned element = region.buffer.elementBytes;
  auto report = [&](const char *kind, const Moment &then, size_t at) {
    addFinding(Fault::Race, std::string(kind) + "/" + region.buffer.name,
               std::string(kind) + " race on byte " +
                   std::to_string(at * element) + " of " + region.buffer.name +
                   ": " + describe(then) + " and " + describe(now));
  };
  for (size_t at = offset / element; at <= (offset + size - 1) / element;
       ++at) {
    Cell &cell = region.cells[at];
    if (!isWriteBefore(cell, now))
      report(isWrite ? "write-write" : "write-read", cell.write, at);
    if (!isWrite) {
      noteRead(cell, now);
      continue;
    }
    if (!areReadsBefore(cell, now))
      report("read-write", cell.read, at);
    cell = Cell();
    cell.write = now;
  }
}

/// Accesses of one instruction, at one time, of all lanes are one of the warp.
void Memory::countWarp(std::vector<Logged> &log) {
  std::sort(log.begin(), log.end(), [](const Logged &x, const Logged &y) {
    return std::tie(x.site, x.turn, x.address) <
           std::tie(y.site, y.turn, y.address);
  });
  for (size_t first = 0, last; first < log.size(); first = last) {
    int64_t bytes = 0, sectors = 0;
    uintptr_t end = 0, nextSector = 0;
    for (last = first; last < log.size() && log[last].site == log[first].site &&
                       log[last].turn == log[first].turn;
         ++last) {
      const Logged &lane = log[last];
      uintptr_t until = lane.address + lane.size;
      bytes += std::max(until, end) - std::max(lane.address, end);
      end = std::max(until, end);
      uintptr_t from = std::max(lane.address / sectorSize, nextSector),
                to = (until - 1) / sectorSize + 1;
      if (to > from) {
        sectors += to - from;
        nextSector = to;
      }
    }
    ++traffic.accesses;
    (log[first].isWrite ? traffic.bytesWritten : traffic.bytesRead) += bytes;
    traffic.sectors += sectors;
    traffic.idealSectors += (bytes + sectorSize - 1) / sectorSize;
  }
  log.clear();
}

void Memory::endBlock() {
  for (std::vector<Logged> &log : logs)
    countWarp(log);
  for (std::vector<unsigned> &counts : turns)
    std::fill(counts.begin(), counts.end(), 0);
}

void Memory::finish() {
  for (const Region &region : regions) {
    if (!region.buffer.isResult)
      continue;
    auto count =
        std::count(region.isWritten.begin(), region.isWritten.end(), 0);
    if (count == 0)
      continue;
    auto first =
        std::find(region.isWritten.begin(), region.isWritten.end(), 0) -
        region.isWritten.begin();
    addFinding(Fault::NotWritten, "written/" + region.buffer.name,
               std::to_string(count) + " bytes of " + region.buffer.name +
                   " are not written, the first of them byte " +
                   std::to_string(first));
  }
}
