// What this machine says about itself, and what the user sees of the others.

#include "runtime/session/JoinMachines.h"

#include "runtime/job/net/Machines.h"
#include "runtime/launch/ControlGroups.h"
#include "runtime/report/Messages.h"
#include "runtime/session/Checks.h"
#include "runtime/session/Resume.h"
#include "runtime/session/SharedPlan.h"
#include "support/ByteText.h"
#include "support/Version.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/resource.h>

namespace polyrank::runtime {
namespace {

uint64_t hashOf(const PlanHash &hash) {
  uint64_t word;
  static_assert(sizeof(PlanHash) >= sizeof(word));
  std::memcpy(&word, hash.data(), sizeof(word));
  return word;
}

/// The features of a CPU that decide which instructions libraries and kernels
/// take, hence the bits of the results: sorted, joined by ','.
std::string vectorFeatures() {
  std::ifstream lines("/proc/cpuinfo");
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    // "flags" on x86-64, "Features" on Arm; all cores are taken for alike.
    if (!line.starts_with("flags") && !line.starts_with("Features"))
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      for (const char *prefix : {"avx", "amx", "fma", "f16c", "sse4", "asimd",
                                 "sve", "bf16", "fphp"})
        if (word.starts_with(prefix))
          found.insert(word);
    break;
  }
  return fmt::format("{}", fmt::join(found, ","));
}

Result<net::NodeStatement> statementOf(const Prepared &run) {
  net::NodeStatement statement;
  statement.version = versionText;
  statement.plan = hashOf(run.plan->bytes.hash);
  statement.cpu = vectorFeatures();
  if (run.isShared()) {
    POLYRANK_ASSIGN(settings, settingsOf(run));
    statement.settings = settings;
    POLYRANK_ASSIGN(data, dataOf(run));
    statement.data = data;
    POLYRANK_ASSIGN(resumed, describeWithDigest(run.resumed));
    statement.resumed = resumed;
  } else {
    // Each machine has data and a seed of its own; but all end after the same
    // step, and all save then or none does.
    statement.settings = fmt::format("whole-plan=yes,steps={},checkpoints={}",
                                     run.steps, run.checkpoint ? "yes" : "no");
  }
  statement.ranks = uint32_t(run.here.count);
  statement.memory = memoryRoom().bytes;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    statement.openFiles = limit.rlim_cur;
  return std::move(statement);
}

void say(const std::string &line) {
  tell(fmt::format("polyrank-run: {}\n", line));
}

/// "machine 1 of 2: 4 ranks; the others: machine 0 (10.0.0.1), 16 GiB".
std::string describe(const Prepared &run, const net::Machines &machines) {
  std::vector<std::string> others;
  constexpr size_t most = 8;
  for (size_t number = 0; number < machines.peers().size(); ++number)
    if (int(number) != machines.machine())
      others.push_back(fmt::format("{}, {}", machines.describe(int(number)),
                                   bytesText(machines.peers()[number].memory)));
  size_t hidden = others.size() - std::min(others.size(), most);
  others.resize(others.size() - hidden);
  RankRange here = run.here;
  return fmt::format(
      "machine {} of {}: {}; the others: {}{}", machines.machine(),
      machines.machines(),
      // With --whole-plan each machine counts its ranks from 0.
      !run.isShared() ? plural(uint64_t(here.count), "rank")
      : here.count > 1
          ? fmt::format("ranks {} to {} of {}", here.first, here.end() - 1,
                        run.report.ranks)
          : fmt::format("rank {} of {}", here.first, run.report.ranks),
      fmt::join(others, "; "),
      hidden ? fmt::format("; and {} more", hidden) : "");
}

/// The text of POLYRANK_KEY, null if there is none. The ranks need none, but a
/// run that follows on fewer machines does.
const char *takeKeyFromEnvironment() {
  static const std::optional<std::string> text = [] {
    const char *value = std::getenv("POLYRANK_KEY");
    return value ? std::optional<std::string>(value) : std::nullopt;
  }();
  unsetenv("POLYRANK_KEY");
  return text ? text->c_str() : nullptr;
}

/// True if a failure does not end the run of several machines: all may start
/// their ranks again, or find an older checkpoint.
bool mayStartAgain(const Prepared &run) {
  const SessionOptions &options = run.options;
  return run.isShared() && options.guests.empty() &&
         (options.restarts > 0 || resumesFromFolder(options.checkpoints));
}

/// A spare runs the ranks of the machine in whose place it has come.
void takePlace(Prepared &run, int machine) {
  if (run.options.machines.machine == machine)
    return;
  run.options.machines.machine = run.options.place.machine = machine;
  run.here.first = machine * run.here.count;
}

} // namespace

Result<std::unique_ptr<OtherMachines>> joinMachines(Prepared &run) {
  const MachineOptions &requested = run.options.machines;
  net::JoinOptions options;
  options.machines = requested.machines;
  options.machine = requested.machine;
  options.host = requested.host;
  options.port = requested.port;
  options.bindAddress = requested.bindAddress;
  POLYRANK_ASSIGN(key,
                  net::JobKey::find(requested.key, takeKeyFromEnvironment()));
  options.key = key;
  options.joinTimeout =
      std::chrono::milliseconds(int64_t(1e3 * requested.joinTimeout));
  options.allowMixedCpus = requested.allowMixedCpus;
  options.sharesRanks = run.isShared();
  options.startsAgain = mayStartAgain(run);
  options.spares = requested.spares;
  for (const auto &[machines, plan] : requested.plansIf)
    options.fewer.push_back(machines);
  options.rejoinTimeout =
      std::chrono::milliseconds(int64_t(1e3 * requested.rejoinTimeout));
  POLYRANK_ASSIGN(statement, statementOf(run));
  options.statement = std::move(statement);
  options.log = say;
  if (!run.options.quiet)
    say(requested.machine == 0
            ? fmt::format("waits for {} at port {}",
                          plural(requested.machines - 1, "machine"),
                          requested.port)
            : fmt::format("goes to machine 0 at {}, port {}{}", requested.host,
                          requested.port,
                          requested.isSpare() ? ", and waits there as a spare"
                                              : ""));
  POLYRANK_ASSIGN(joined, net::Machines::join(options));
  if (!joined) {
    if (!run.options.quiet)
      say("the job is done, and this spare was not needed");
    return std::unique_ptr<OtherMachines>();
  }
  takePlace(run, joined->machine());
  if (!run.options.quiet)
    say(describe(run, *joined));
  return std::unique_ptr<OtherMachines>(std::move(joined));
}

} // namespace polyrank::runtime
