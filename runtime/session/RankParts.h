// What a rank computes and communicates with.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/SessionJobs.h"

#include <functional>
#include <memory>

namespace polyrank::runtime {

/// Makes the devices and communicators of a rank: by default those of the plan
/// and of the job. Tests wrap them.
struct RankParts {
  std::function<Result<std::unique_ptr<Device>>(
      const plan::Plan &plan, const plan::Program &program,
      std::shared_ptr<const HostTeam> team)>
      makeDevice = runtime::makeDevice;
  /// For the training's plan, or with `evaluates` for the evaluating one.
  std::function<Result<std::unique_ptr<Communicator>>(
      const RankConnection &connection, JobMember &job, const LoadedPlan &plan,
      bool evaluates)>
      attachCommunicator = attachToSession;
};

} // namespace polyrank::runtime
