// The job of a session, and what moves the data of its plans.

#pragma once

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/job/MakeJob.h"
#include "runtime/job/OtherMachines.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Evaluation.h"

#include <functional>
#include <memory>
#include <vector>

namespace polyrank::runtime {

/// The launcher's end, for one attempt: the job, and the communicators' hosts,
/// of the plan and of an evaluating plan on the same processes. All are gone
/// with this object.
class SessionJobs {
public:
  struct Options {
    const LoadedPlan *plan = nullptr;
    /// Null if the session does not evaluate.
    const Evaluation *evaluation = nullptr;
    int threadsPerRank = 1;
    /// True if each thread of the ranks has a core that nobody else needs.
    bool alone = false;
    RankRange here; // the ranks of this machine
    /// The machines that share the ranks out; null if all ranks are here.
    OtherMachines *others = nullptr;
    bool checksWire = true; // see CommunicatorNeeds
    WireKind wire = WireKind::Tcp;
    /// Ends the wait for other machines.
    std::function<bool()> isInterrupted;
  };
  static Result<std::unique_ptr<SessionJobs>> create(const Options &options);

  JobControl &control() { return *job; }
  /// The files by which communicators attach, for JobFile.
  std::vector<int> communicatorFiles() const;

private:
  SessionJobs(std::unique_ptr<JobControl> created,
              std::vector<std::unique_ptr<CommunicatorHost>> given);

  std::unique_ptr<JobControl> job;
  std::vector<std::unique_ptr<CommunicatorHost>> hosts;
  Job::AbortHook wakes;
};

/// A rank's communicator for the plan, or with `evaluates` for the evaluating
/// plan. Fails if the launcher runs another plan.
Result<std::unique_ptr<Communicator>>
attachToSession(const RankConnection &connection, JobMember &job,
                const LoadedPlan &plan, bool evaluates = false);

} // namespace polyrank::runtime
