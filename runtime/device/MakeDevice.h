// Makes devices for plans: the only place that knows which kinds of devices
// this program was built with.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/HostTeam.h"
#include "runtime/plan/plan_generated.h"

#include <memory>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Makes the threads of the host for a rank of the plan: as many as it says,
/// with its treatment of denormals.
std::shared_ptr<const HostTeam> makeTeam(const plan::Plan &plan);

/// Makes the device on which a rank of `program` computes: one of the kind that
/// the program's target names, with the first image of the plan for this target
/// that this machine can run. What it computes on the host runs on `team`.
/// Fails if this program was built without such devices, or if the machine can
/// run none of the images; the message then says what each of them needs.
Result<std::unique_ptr<Device>>
makeDevice(const plan::Plan &plan, const plan::Program &program,
           std::shared_ptr<const HostTeam> team);

/// Finds out if makeDevice would succeed for each program of the plan, and if
/// the libraries that their calls need are there, by loading images and
/// libraries. Returns the machines that the images were compiled for,
/// "x86-64-v4", each once.
Result<std::vector<std::string>> checkDevices(const plan::Plan &plan);

/// Returns the files of the libraries that the devices load when the plan's
/// calls are prepared, such as "libdnnl.so.2".
Result<std::vector<std::string>> librariesOf(const plan::Plan &plan);

} // namespace polyrank::runtime
