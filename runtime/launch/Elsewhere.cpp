// What a launcher asks of the other machines, and tells them.

#include "runtime/launch/Elsewhere.h"

#include "runtime/launch/RankTable.h"

#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {

Elsewhere::Elsewhere(const LaunchOptions &options, JobControl &job)
    : options(options), job(job), others(options.others) {
  if (others)
    others->watch(job, options.window);
}

Elsewhere::~Elsewhere() {
  if (others)
    others->unwatch();
}

void Elsewhere::tick(const std::vector<WatchedRank> &ranks) {
  if (!others)
    return;
  std::vector<int32_t> now;
  for (const WatchedRank &rank : ranks)
    now.push_back(rank.running ? rank.pid : -1);
  if (now != pids)
    others->setProcesses(pids = std::move(now));
  for (const std::string &text : others->takeTold())
    if (options.onWarning)
      options.onWarning(text);
}

bool Elsewhere::isToJudge() const {
  return !job.isShared() || !others || others->machine() == 0;
}

std::vector<WatchedRank>
Elsewhere::withOthers(std::vector<WatchedRank> here) const {
  if (!job.isShared() || !others)
    return here;
  std::vector<WatchedRank> all;
  for (int machine = 0; machine < others->machines(); ++machine)
    if (machine == others->machine())
      all.insert(all.end(), here.begin(), here.end());
    else
      for (const RemoteRank &rank : others->ranksOf(machine))
        all.push_back({rank.pid, rank.running, rank.state});
  // Before its first pulse nothing is known of a machine.
  all.resize(static_cast<size_t>(job.worldSize()), {-1, true, '?'});
  return all;
}

std::vector<uint64_t> Elsewhere::awaited() const {
  std::vector<uint64_t> all;
  for (int rank = 0; rank < job.worldSize(); ++rank)
    all.push_back(
        job.awaitedNanoseconds(rank) +
        (others && job.isShared() ? others->awaitedElsewhere(rank) : 0));
  return all;
}

bool Elsewhere::takesReport(int rank, const std::string &line) {
  if (!others || !job.isShared() || others->machine() == 0)
    return false;
  others->report(rank, line);
  return true;
}

std::vector<OtherMachines::Report> Elsewhere::takeReports() {
  return others && job.isShared() ? others->takeReports()
                                  : std::vector<OtherMachines::Report>();
}

Error Elsewhere::named(const MachineFailure &failure) const {
  std::string name = others->describe(failure.machine);
  // What is said of a machine as a whole names it already.
  bool isNamed = failure.error.message.starts_with(name) ||
                 failure.error.message.starts_with("machine ");
  return failure.error.saying(
      isNamed ? failure.error.message
              : fmt::format("{}: {}", name, failure.error.message));
}

std::optional<Error> Elsewhere::failure() {
  if (!others || hasFailed)
    return std::nullopt;
  std::optional<MachineFailure> first = others->failure();
  if (!first)
    return std::nullopt;
  if (first->machine != others->machine() && job.isShared())
    culprit = first->rank;
  if (!job.isShared() && first->rank < 0 &&
      first->machine != others->machine() && !std::exchange(hasShown, true))
    showRanksOf(first->machine);
  return named(*first);
}

void Elsewhere::showRanksOf(int machine) const {
  std::vector<RankSnapshot> ranks;
  for (const RemoteRank &rank : others->ranksOf(machine))
    ranks.push_back(
        {rank.pid, rank.running, rank.state, rank.report, rank.wait, {}});
  if (ranks.empty() || !options.onWarning)
    return;
  options.onWarning(fmt::format("{}, when it was last heard: {}",
                                others->describe(machine),
                                rankTable(ranks, findCulprits(ranks),
                                          {options.nameOf, options.placeOf})));
}

void Elsewhere::fail(int rank, const Error &error, bool fromOutside,
                     int signal) {
  if (!others || std::exchange(hasFailed, true))
    return;
  others->fail(
      {others->machine(), rank, error, fromOutside, signal, job.holdSteps()});
}

void Elsewhere::tell(const std::string &text) {
  if (others)
    others->tell(text);
}

void Elsewhere::requestStop(int signal) {
  if (others)
    others->requestStop(signal);
}

std::optional<OtherMachines::Stop> Elsewhere::stop() const {
  return others ? others->stop() : std::nullopt;
}

LaunchEnd Elsewhere::conclude(const LaunchEnd &here,
                              const std::function<bool()> &isInterrupted,
                              const std::function<int()> &judge) {
  LaunchEnd end = here;
  Result<int> status = others        ? concluded(here, isInterrupted, judge)
                       : here.result ? Result<int>(judge())
                                     : here.result.error();
  if (status) {
    end.status = *status;
  } else {
    end.result = status.error();
    if (others)
      addFailure(end, *others);
  }
  return end;
}

Result<int> Elsewhere::concluded(const LaunchEnd &here,
                                 const std::function<bool()> &isInterrupted,
                                 const std::function<int()> &judge) {
  if (here.result || here.result.error().fault == Error::Fault::Preempted) {
    Result<int> all = others->finish(
        isInterrupted, job.isShared() ? judge : [] { return 0; });
    if (all && !here.result)
      return here.result.error();
    if (all)
      return job.isShared() ? *all : judge();
    std::optional<MachineFailure> first = others->failure();
    return first ? named(*first) : all.error();
  }
  fail(-1, here.result.error(), here.fromOutside);
  std::optional<MachineFailure> first = others->awaitFailure();
  if (!first || first->machine == others->machine())
    return here.result.error();
  return named(*first);
}

void addFailure(LaunchEnd &end, const OtherMachines &others) {
  std::optional<MachineFailure> first = others.failure();
  if (!first || first->machine == others.machine())
    return;
  end.fromOutside = first->fromOutside;
  end.begun = first->begun;
  if (end.signal == 0)
    end.signal = first->signal;
}

} // namespace polyrank::runtime
