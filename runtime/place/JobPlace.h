// The place of this process in a job: which machine it is on, how many there
// are, and where the first one is.

#pragma once

#include "runtime/place/Endpoint.h"
#include "runtime/place/Environment.h"
#include "runtime/place/Launchers.h"
#include "support/RankRange.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// What the user has said of the machines.
struct PlaceOptions {
  std::optional<int64_t> machines = {}, machine = {}; // --machines, --machine
  int spares = 0;                                     // --spares
  std::string rendezvous = {}; // --rendezvous; empty: not given
};

struct JobPlace {
  /// Who has started this process as one of several; empty: nobody.
  std::string launcher = {};
  int machines = 1, machine = 0;
  /// Machines beyond `machines`, with the numbers that follow, which wait until
  /// one of them is lost.
  int spares = 0;
  int tasks = 1, task = 0; // of all machines, and this one of them
  /// The tasks of this machine, of which this is number `local`. One starts all
  /// ranks of its machine; of several, each is a rank.
  int locals = 1, local = 0;
  /// The id of the launcher's job, the same in all tasks; empty: none.
  std::string job = {};
  /// Where machine 0 is. Its host is empty on one machine, and its port is 0
  /// only there.
  Endpoint rendezvous = {};
  /// The tasks must exchange their machines first (MachineExchange.h), since
  /// `machine`, `machines` and `rendezvous.host` are not known.
  bool isToExchange = false;
  /// What this follows from: "GROUP_RANK=1", "--machines 2".
  std::vector<std::string> sources = {};
  /// See LaunchedTask.
  std::string restartOption = {}, alone = {};

  bool isOneOfSeveral() const { return machines > 1; }
  /// True if each rank is a task of its own.
  bool hasTaskPerRank() const { return locals > 1; }
  /// "machine 1 of 2, task 0 of 2 there; machine 0 is at a:31234 (torchrun:
  /// GROUP_RANK=1, ..)".
  std::string describe() const;
};

/// Finds the place of this process by the options and the variables that
/// launchers, Slurm and Kubernetes set. The options win over what Kubernetes
/// says; that they contradict a launcher which has started several tasks is an
/// error that names both.
Result<JobPlace> findPlace(const PlaceOptions &options,
                           const Environment &environment);

/// Of the machines that a launcher has started, those that share the ranks out.
/// Fails if that is no job of several.
Result<int> withoutSpares(int all, const PlaceOptions &options);

/// Completes a place that is known up to where machine 0 is: the option wins
/// over `host`. Fails if neither says it. Without a port of either the port
/// follows from the job.
Result<void> setRendezvous(JobPlace &place, const PlaceOptions &options,
                           const std::string &host, uint16_t reservedPort);

/// The name by which the tasks of this machine find each other; empty if the
/// launcher gives its job no id.
std::string nameOfTasks(const JobPlace &place);

/// Returns the ranks that run on this machine. Shares those of a plan out over
/// machines, or with `wholePlan` gives each
/// machine all of them. Fails, with both numbers, if the ranks cannot be shared
/// out evenly, or if there are neither as many tasks as ranks nor one task on
/// each machine.
Result<RankRange> shareOf(const JobPlace &place, int ranks, bool wholePlan);

} // namespace polyrank::runtime
