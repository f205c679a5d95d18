// Ranks of one machine, which communicate by shared memory, or of several,
// which have connections as well.

#include "runtime/comm/MakeCommunicator.h"

#include "runtime/comm/net/NetCommunicator.h"
#include "runtime/comm/shm/ShmMemory.h"

#include <numeric>
#include <utility>

namespace polyrank::runtime {
namespace {

class ShmHost : public CommunicatorHost {
public:
  explicit ShmHost(shm::Memory created) : memory(std::move(created)) {}
  std::vector<int> descriptors() const override { return memory.descriptors(); }
  Result<void> connect(const CommunicatorPeers &) override {
    return Error{"ranks of one machine are not connected by addresses",
                 Error::Fault::Rank};
  }
  void wakeSleepers() const override { memory.wakeSleepers(); }

private:
  shm::Memory memory;
};

} // namespace

int RankMachines::firstOf(int other) const {
  return std::accumulate(ranks.begin(), ranks.begin() + other, 0);
}

int RankMachines::machineOf(int rank) const {
  int machine = 0;
  while (rank >= firstOf(machine + 1))
    ++machine;
  return machine;
}

Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs) {
  if (needs.machines && needs.machines->ranks.size() > 1)
    return net::hostCommunicators(needs);
  shm::MemoryOptions options;
  options.slotBytes = needs.channelBytes;
  options.program = needs.program;
  POLYRANK_ASSIGN(memory, shm::Memory::create(options));
  return std::unique_ptr<CommunicatorHost>(
      std::make_unique<ShmHost>(std::move(memory)));
}

int communicatorFilesOf(int ranks, int machines) {
  return machines > 1 ? net::filesOf(ranks) : shm::filesOf(ranks);
}

Result<std::unique_ptr<Communicator>>
attachCommunicator(std::span<const int> descriptors, JobMember &job,
                   const PlanHash &program) {
  if (descriptors.size() != size_t(shm::filesOf(job.worldSize())))
    return net::NetCommunicator::attach(descriptors, job, program);
  return shm::attach(descriptors, job, program);
}

} // namespace polyrank::runtime
