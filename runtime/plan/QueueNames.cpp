// Names queues after what runs there.

#include "runtime/plan/QueueNames.h"

#include "runtime/plan/ProgramGroups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <utility>

namespace polyrank::runtime {
namespace {

/// The axes of a command of a communication queue, and their name with that of
/// the direction of a transfer.
std::pair<AxisDigits, std::string> nameOf(const plan::Program &program,
                                          const Mesh &mesh,
                                          const plan::Command &command) {
  auto of = [&](uint32_t group, const std::string &direction) {
    const AxisRefs *axes = program.groups()->Get(group)->axes();
    return std::pair(digitsOf(*axes), mesh.describe(axes) + direction);
  };
  auto linkOf = [&](const auto &end) {
    return of(end.group(), fmt::format(" {} to {}", end.from(), end.to()));
  };
  if (const plan::Send *send = command.body_as_Send())
    return linkOf(*send);
  if (const plan::Receive *receive = command.body_as_Receive())
    return linkOf(*receive);
  return of(command.body_as_Collective()->group(), "");
}

} // namespace

std::vector<std::string> communicationQueueNames(const plan::Program &program,
                                                 const Mesh &mesh) {
  struct Named {
    std::set<AxisDigits> seen;
    std::vector<std::string> names;
  };
  std::vector<Named> queues(program.communication_queues());
  for (const plan::Segment *segment : *program.segments())
    if (segment->commands())
      for (const plan::Command *command : *segment->commands()) {
        if (command->queue() < firstCommunicationQueue)
          continue;
        Named &queue = queues[command->queue() - firstCommunicationQueue];
        auto [axes, name] = nameOf(program, mesh, *command);
        if (queue.seen.insert(std::move(axes)).second)
          queue.names.push_back(std::move(name));
      }
  std::vector<std::string> result;
  for (const Named &queue : queues)
    result.push_back(fmt::format("{}", fmt::join(queue.names, " and ")));
  return result;
}

} // namespace polyrank::runtime
