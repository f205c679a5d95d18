// polyrank-run whose ranks have a device and a communicator that work late: see
// test/parity/test_queued.py. POLYRANK_QUEUE_SEED draws the delays.

#include "test/runtime/queued/QueuedCommunicator.h"
#include "test/runtime/queued/QueuedDevice.h"
#include "tools/polyrank-run/RunMain.h"

#include <cstdlib>

using namespace polyrank;
using namespace polyrank::runtime;

int main(int argc, char **argv) {
  const char *seed = std::getenv("POLYRANK_QUEUE_SEED");
  // The plans for training and for evaluating share the queues.
  auto queues = test::makeQueues(seed ? std::strtoull(seed, nullptr, 10) : 1,
                                 std::chrono::microseconds(200));
  RankParts parts;
  parts.makeDevice = [&](const plan::Plan &plan, const plan::Program &program,
                         std::shared_ptr<const HostTeam> team)
      -> Result<std::unique_ptr<Device>> {
    POLYRANK_ASSIGN(device, makeDevice(plan, program, std::move(team)));
    return std::unique_ptr<Device>(
        std::make_unique<test::QueuedDevice>(std::move(device), queues));
  };
  parts.attachCommunicator =
      [&](const RankConnection &connection, JobMember &job,
          const LoadedPlan &plan,
          bool evaluates) -> Result<std::unique_ptr<Communicator>> {
    POLYRANK_ASSIGN(communicator,
                    attachToSession(connection, job, plan, evaluates));
    return std::unique_ptr<Communicator>(
        std::make_unique<test::QueuedCommunicator>(
            std::move(communicator), queues, test::communicatorQueue));
  };
  return runMain(argc, argv, parts);
}
