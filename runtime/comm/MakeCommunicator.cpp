// Ranks of one machine, which communicate by shared memory.

#include "runtime/comm/MakeCommunicator.h"

#include "runtime/comm/shm/ShmMemory.h"

#include <utility>

namespace polyrank::runtime {
namespace {

class ShmHost : public CommunicatorHost {
public:
  explicit ShmHost(shm::Memory created) : memory(std::move(created)) {}
  std::vector<int> descriptors() const override { return memory.descriptors(); }
  void wakeSleepers() const override { memory.wakeSleepers(); }

private:
  shm::Memory memory;
};

} // namespace

Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs) {
  shm::MemoryOptions options;
  options.slotBytes = needs.channelBytes;
  options.program = needs.program;
  POLYRANK_ASSIGN(memory, shm::Memory::create(options));
  return std::unique_ptr<CommunicatorHost>(
      std::make_unique<ShmHost>(std::move(memory)));
}

int communicatorFilesOf(int ranks) { return shm::filesOf(ranks); }

Result<std::unique_ptr<Communicator>>
attachCommunicator(std::span<const int> descriptors, JobMember &job,
                   const PlanHash &program) {
  return shm::attach(descriptors, job, program);
}

} // namespace polyrank::runtime
