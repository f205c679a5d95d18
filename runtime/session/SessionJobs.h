// The job of a session, and what moves the data of its plans.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/job/Job.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Evaluation.h"

#include <memory>
#include <vector>

namespace polyrank::runtime {

/// The launcher's end, for one attempt: the job, and the memory by which ranks
/// communicate, of the plan and of an evaluating plan on the same processes.
/// All are gone with this object.
class SessionJobs {
public:
  virtual ~SessionJobs() = default;

  /// `evaluation` is null if the session does not evaluate; `alone` is true if
  /// each thread of the ranks has a core that nobody else needs.
  static Result<std::unique_ptr<SessionJobs>>
  create(const LoadedPlan &plan, const Evaluation *evaluation,
         int threadsPerRank, bool alone);

  virtual JobControl &control() = 0;
  /// The files by which communicators attach, for JobFile.
  virtual std::vector<int> communicatorFiles() const = 0;
};

/// Joins a rank to its job.
Result<std::unique_ptr<JobMember>> joinJob(const RankConnection &connection);
/// A rank's communicator for the plan, or with `evaluates` for the evaluating
/// plan. Fails if the launcher runs another plan.
Result<std::unique_ptr<Communicator>>
attachCommunicator(const RankConnection &connection, JobMember &job,
                   const LoadedPlan &plan, bool evaluates = false);

} // namespace polyrank::runtime
