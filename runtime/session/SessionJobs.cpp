// Sessions on one machine: a local job, and communicators by shared memory.

#include "runtime/session/SessionJobs.h"

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/job/local/LocalJob.h"
#include "runtime/plan/ProgramChannels.h"
#include "runtime/session/JobFiles.h"

namespace polyrank::runtime {
namespace {

Result<shm::Memory> createMemory(const LoadedPlan &plan) {
  shm::MemoryOptions options;
  std::vector<uint64_t> slotBytes; // by program
  for (uint32_t number = 0; number < plan.programs(); ++number)
    slotBytes.push_back(*channelBytesOf(plan.program(number)));
  Mesh mesh(*plan.plan);
  options.slotBytes.clear();
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    options.slotBytes.push_back(slotBytes[programOf(*plan.plan, mesh, rank)]);
  options.program = plan.bytes.hash;
  return shm::Memory::create(options);
}

class LocalJobs : public SessionJobs {
public:
  LocalJobs(std::unique_ptr<JobControl> created,
            std::vector<shm::Memory> memory)
      : job(std::move(created)), memory(std::move(memory)),
        wakes(job->onAbort([this] {
          for (const shm::Memory &each : this->memory)
            each.wakeSleepers();
        })) {}

  JobControl &control() override { return *job; }
  std::vector<int> communicatorFiles() const override {
    std::vector<int> all;
    for (const shm::Memory &each : memory)
      for (int file : each.descriptors())
        all.push_back(file);
    return all;
  }

private:
  std::unique_ptr<JobControl> job;
  std::vector<shm::Memory> memory;
  Job::AbortHook wakes;
};

} // namespace

Result<std::unique_ptr<SessionJobs>>
SessionJobs::create(const LoadedPlan &plan, const Evaluation *evaluation,
                    int threadsPerRank, bool alone) {
  local::JobOptions options;
  options.ranks = int(Mesh(*plan.plan).ranks());
  options.threadsPerRank = threadsPerRank;
  options.alone = alone;
  POLYRANK_ASSIGN(job, local::createJob(options));
  std::vector<shm::Memory> memory;
  POLYRANK_ASSIGN(first, createMemory(plan));
  memory.push_back(std::move(first));
  if (evaluation && evaluation->plan) {
    POLYRANK_ASSIGN(second, createMemory(*evaluation->plan));
    memory.push_back(std::move(second));
  }
  return std::unique_ptr<SessionJobs>(
      std::make_unique<LocalJobs>(std::move(job), std::move(memory)));
}

Result<std::unique_ptr<JobMember>> joinJob(const RankConnection &connection) {
  return local::joinJob(connection.job(), connection.rank());
}

Result<std::unique_ptr<Communicator>>
attachCommunicator(const RankConnection &connection, JobMember &job,
                   const LoadedPlan &plan, bool evaluates) {
  return shm::attach(
      communicatorFiles(connection, job.worldSize(), evaluates ? 1 : 0), job,
      plan.bytes.hash);
}

} // namespace polyrank::runtime
