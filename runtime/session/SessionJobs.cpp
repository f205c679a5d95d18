// Creates the job of an attempt, and the communicators of its plans.

#include "runtime/session/SessionJobs.h"

#include "runtime/plan/ProgramChannels.h"
#include "runtime/session/JobFiles.h"

namespace polyrank::runtime {
namespace {

Result<std::unique_ptr<CommunicatorHost>> hostFor(const LoadedPlan &plan) {
  std::vector<uint64_t> channelBytes; // by program
  for (uint32_t number = 0; number < plan.programs(); ++number)
    channelBytes.push_back(*channelBytesOf(plan.program(number)));
  CommunicatorNeeds needs;
  needs.program = plan.bytes.hash;
  Mesh mesh(*plan.plan);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    needs.channelBytes.push_back(
        channelBytes[programOf(*plan.plan, mesh, rank)]);
  return hostCommunicators(needs);
}

} // namespace

Result<std::unique_ptr<SessionJobs>>
SessionJobs::create(const LoadedPlan &plan, const Evaluation *evaluation,
                    int threadsPerRank, bool alone) {
  POLYRANK_ASSIGN(
      job, createJob({.ranks = static_cast<int>(Mesh(*plan.plan).ranks()),
                      .threadsPerRank = threadsPerRank,
                      .alone = alone}));
  std::vector<std::unique_ptr<CommunicatorHost>> hosts;
  POLYRANK_ASSIGN(first, hostFor(plan));
  hosts.push_back(std::move(first));
  if (evaluation && evaluation->plan) {
    POLYRANK_ASSIGN(second, hostFor(*evaluation->plan));
    hosts.push_back(std::move(second));
  }
  return std::unique_ptr<SessionJobs>(
      new SessionJobs(std::move(job), std::move(hosts)));
}

SessionJobs::SessionJobs(std::unique_ptr<JobControl> created,
                         std::vector<std::unique_ptr<CommunicatorHost>> given)
    : job(std::move(created)), hosts(std::move(given)),
      wakes(job->onAbort([this] {
        for (const auto &host : hosts)
          host->wakeSleepers();
      })) {}

std::vector<int> SessionJobs::communicatorFiles() const {
  std::vector<int> all;
  for (const auto &host : hosts)
    for (int file : host->descriptors())
      all.push_back(file);
  return all;
}

Result<std::unique_ptr<Communicator>>
attachToSession(const RankConnection &connection, JobMember &job,
                const LoadedPlan &plan, bool evaluates) {
  return attachCommunicator(
      communicatorFiles(connection, job.worldSize(), evaluates ? 1 : 0), job,
      plan.bytes.hash);
}

} // namespace polyrank::runtime
