// Walks the control groups of this process, of both versions.

#include "runtime/launch/ControlGroups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace polyrank::runtime {
namespace {

/// Calls `visit` with the folder of this process's group for one controller
/// ("cpu", "memory"), of each group above it, and of the mount itself, and with
/// whether they are of cgroup v2. A container may see a path that is not below
/// its own mount: then only the mount is visited.
template <typename Visit>
void forEachGroup(const std::string &root, const std::string &controller,
                  const Visit &visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    bool unified = controllers == ",,";
    std::vector<std::string> mounts;
    if (unified)
      mounts = {"", "/unified"};
    else if (controllers.find("," + controller + ",") == std::string::npos)
      continue;
    else
      mounts = {"/" + controller,
                "/" + controllers.substr(1, controllers.size() - 2)};
    for (const std::string &mount : mounts) {
      std::string folder = root + "/sys/fs/cgroup" + mount;
      std::string group = line.substr(second + 1);
      visit(folder, unified);
      for (; group.size() > 1; group.resize(group.rfind('/')))
        visit(folder + group, unified);
      if (!unified && mounts[0] == mounts[1])
        break;
    }
  }
}

/// Parses "max 100000" or "150000 100000", in microseconds, into a number of
/// cores.
double quotaOf(const std::string &text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  return words >> quota >> period && quota > 0 && period > 0 ? quota / period
                                                             : unlimited;
}

/// Returns the number in a file, or `otherwise` if there is none ("max", or no
/// file).
uint64_t numberIn(const std::string &path, uint64_t otherwise) {
  std::istringstream text(firstLine(path));
  uint64_t number = 0;
  return text >> number ? number : otherwise;
}

/// Returns the number after `name` in a file of lines "name number".
uint64_t entryOf(const std::string &path, const std::string &name) {
  std::ifstream file(path);
  std::string word;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uint64_t number = 0;
    if (words >> word >> number && word == name)
      return number;
  }
  return 0;
}

} // namespace

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double cpuQuota(const std::string &root) {
  double least = unlimited;
  forEachGroup(root, "cpu", [&](const std::string &folder, bool unified) {
    least = std::min(
        least, quotaOf(unified ? firstLine(folder + "/cpu.max")
                               : firstLine(folder + "/cpu.cfs_quota_us") + " " +
                                     firstLine(folder + "/cpu.cfs_period_us")));
  });
  return least;
}

MemoryRoom memoryRoom(const std::string &root) {
  constexpr uint64_t none = std::numeric_limits<uint64_t>::max();
  MemoryRoom room;
  if (uint64_t kilobytes = entryOf(root + "/proc/meminfo", "MemAvailable:"))
    room = {kilobytes << 10, 0};
  forEachGroup(root, "memory", [&](const std::string &folder, bool unified) {
    uint64_t limit = numberIn(
        folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"), none);
    // Version 1 writes "no limit" as the largest multiple of a page.
    if (limit >= none >> 2)
      return;
    uint64_t used = numberIn(
        folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"), 0);
    std::string prefix = unified ? "" : "total_";
    uint64_t cached = 0;
    for (const char *list : {"inactive_file", "active_file"})
      cached += entryOf(folder + "/memory.stat", prefix + list);
    used -= std::min(used, cached);
    uint64_t left = limit - std::min(limit, used);
    if (left < room.bytes)
      room = {left, limit};
  });
  return room;
}

} // namespace polyrank::runtime
