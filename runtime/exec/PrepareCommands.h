// Prepares the commands of a program for one rank.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/exec/IssuedOperation.h"
#include "runtime/exec/Links.h"
#include "runtime/exec/Rehearsal.h"
#include "runtime/plan/PlanMesh.h"

#include <memory>
#include <vector>

namespace polyrank::runtime {

/// A command of a segment: computed by the device, or issued by the host. A
/// loop is neither and has nested commands, except in a rehearsal, where one
/// issued operation stands for all of it.
struct PreparedCommand {
  plan::CommandBody kind;
  const plan::Command *source;
  const char *segment;
  std::unique_ptr<Operation> computed = nullptr;
  std::unique_ptr<IssuedOperation> issued = nullptr;
  std::vector<PreparedCommand> nested = {};
};

/// Where a program runs. All of it outlives what is prepared with it.
struct RankContext {
  const Mesh &mesh;
  int64_t rank;
  const ArenaView &arena;
  Device &device;
  Communicator &communicator;
  Rehearsal *rehearsal = nullptr; // replaces device and links
};

/// Prepares all commands of a verified program, by segment. Creates its groups
/// and opens its channels; collectives and sends are slowed down to the
/// emulated `links`.
Result<std::vector<std::vector<PreparedCommand>>>
prepareCommands(const plan::Program &program, uint32_t microbatches,
                const RankContext &on, const Links &links);

/// The origin of a command in the user's model, for messages; else its name.
std::string originOf(const plan::Command &command);

} // namespace polyrank::runtime
