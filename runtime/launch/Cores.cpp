// Affinity, NUMA nodes, and claims of cores between jobs.

#include "runtime/launch/Cores.h"

#include "runtime/launch/ControlGroups.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

namespace polyrank::runtime {
namespace {

std::vector<int> allowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed))
        cores.push_back(core);
  return cores;
}

/// Returns the busy ticks of each core.
std::map<int, uint64_t> busyTicks() {
  std::map<int, uint64_t> ticks;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t user = 0, nice = 0, system = 0;
    words >> name >> user >> nice >> system;
    if (name.size() > 3 && name.starts_with("cpu"))
      ticks[std::atoi(name.c_str() + 3)] = user + nice + system;
  }
  return ticks;
}

/// Moves idle cores to the front. Measures only if anything else runs on the
/// machine.
void putFreeFirst(std::vector<int> &cores) {
  std::istringstream load(firstLine("/proc/loadavg"));
  double average;
  int running = 0;
  load >> average >> average >> average >> running;
  if (running < 2)
    return;
  auto before = busyTicks();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto after = busyTicks();
  auto key = [&](int core) {
    return std::pair(after[core] - before[core], core);
  };
  std::sort(cores.begin(), cores.end(),
            [&](int a, int b) { return key(a) < key(b); });
}

/// Claims a core against other jobs, by a socket name that only one socket can
/// have and that vanishes with it. If the system has no such names, every core
/// is free.
bool claim(int core, std::vector<Descriptor> &claims) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = fmt::format("polyrank-core-{}", core);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (socket.get() >= 0 &&
      bind(socket.get(), reinterpret_cast<sockaddr *>(&address), size) != 0 &&
      errno == EADDRINUSE)
    return false;
  claims.push_back(std::move(socket));
  return true;
}

/// Returns the cores of each NUMA node that has any of `cores`.
std::vector<std::vector<int>> nodesOf(const std::vector<int> &cores) {
  std::vector<std::vector<int>> nodes;
  const std::string folder = "/sys/devices/system/node/";
  for (int node : parseCoreList(firstLine(folder + "online"))) {
    std::vector<int> &own = nodes.emplace_back();
    for (int core : parseCoreList(
             firstLine(fmt::format("{}node{}/cpulist", folder, node))))
      if (std::find(cores.begin(), cores.end(), core) != cores.end())
        own.push_back(core);
    if (own.empty())
      nodes.pop_back();
  }
  if (nodes.empty())
    nodes.push_back(cores);
  return nodes;
}

cpu_set_t setOf(const std::vector<int> &cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores)
    CPU_SET(core, &set);
  return set;
}

} // namespace

std::vector<int> parseCoreList(const std::string &text) {
  std::vector<int> cores;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read < 1)
      continue;
    for (int core = first; core <= (read == 2 ? last : first); ++core)
      if (core >= 0 && core < CPU_SETSIZE)
        cores.push_back(core);
  }
  return cores;
}

Result<CoreChoice> chooseCores(int ranks, int threads, int commThreads,
                               Binding binding, bool askedFor) {
  std::vector<int> cores = allowedCores();
  double quota = cpuQuota();
  int each = threads + commThreads;
  int64_t needed = int64_t(ranks) * each;
  auto tooFew = [&](const std::string &why) -> Result<CoreChoice> {
    std::string crew =
        fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
    if (commThreads != 0)
      crew = fmt::format("({} and --comm-threads {})", crew, commThreads);
    std::string needs = fmt::format("{} rank{} x {} need {} core{}, and {}",
                                    ranks, ranks == 1 ? "" : "s", crew, needed,
                                    needed == 1 ? "" : "s", why);
    if (askedFor && binding == Binding::Core)
      return Error{"--bind-to core: " + needs};
    CoreChoice choice;
    choice.note = needs + ": they share cores";
    if (commThreads != 0)
      choice.note += ", and what communicates takes time from what computes";
    return choice;
  };
  if (needed > int64_t(cores.size()))
    return tooFew(fmt::format("this process may use {}", cores.size()));
  if (static_cast<double>(needed) > quota)
    return tooFew(
        fmt::format("its control group has the time of {:.4g}", quota));

  putFreeFirst(cores);
  auto nodes = nodesOf(cores);
  CoreChoice choice;
  choice.alone = true;
  size_t taken = 0; // by others
  std::vector<bool> tried(CPU_SETSIZE);
  auto takeFrom = [&](const std::vector<int> &from) {
    std::vector<int> mine;
    for (int core : from) {
      if (int(mine.size()) == each)
        break;
      if (tried[core])
        continue;
      tried[core] = true;
      if (claim(core, choice.claims))
        mine.push_back(core);
      else
        ++taken;
    }
    choice.alone &= int(mine.size()) == each;
    return mine;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> &node = nodes[rank * nodes.size() / ranks];
    std::vector<int> mine = takeFrom(binding == Binding::Numa ? node : cores);
    if (binding == Binding::Numa)
      choice.ranks.push_back(setOf(node));
    else if (binding == Binding::Core)
      choice.ranks.push_back(setOf(mine));
  }
  if (choice.alone || binding == Binding::Numa)
    return choice;
  return tooFew(
      fmt::format("other runs have taken {} of the {} that it may use", taken,
                  cores.size()));
}

} // namespace polyrank::runtime
