// Names queues after what runs there.

#include "runtime/plan/QueueNames.h"

#include "runtime/plan/Queues.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {
namespace {

/// What a command of a communication queue says of it.
std::string nameOf(const plan::Program &program, const Mesh &mesh,
                   const plan::Command &command) {
  auto axesOf = [&](uint32_t group) {
    return mesh.describe(program.groups()->Get(group)->axes());
  };
  auto linkOf = [&](const auto &end) {
    return fmt::format("{} {} to {}", axesOf(end.group()), end.from(),
                       end.to());
  };
  if (const plan::Send *send = command.body_as_Send())
    return linkOf(*send);
  if (const plan::Receive *receive = command.body_as_Receive())
    return linkOf(*receive);
  return axesOf(command.body_as_Collective()->group());
}

} // namespace

std::vector<std::string> communicationQueueNames(const plan::Program &program,
                                                 const Mesh &mesh) {
  std::vector<std::vector<std::string>> parts(program.communication_queues());
  for (const plan::Segment *segment : *program.segments())
    if (segment->commands())
      for (const plan::Command *command : *segment->commands()) {
        if (command->queue() < firstCommunicationQueue)
          continue;
        auto &names = parts[command->queue() - firstCommunicationQueue];
        std::string name = nameOf(program, mesh, *command);
        if (std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(std::move(name));
      }
  std::vector<std::string> result;
  for (const std::vector<std::string> &names : parts)
    result.push_back(fmt::format("{}", fmt::join(names, " and ")));
  return result;
}

} // namespace polyrank::runtime
