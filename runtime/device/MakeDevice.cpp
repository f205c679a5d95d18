// Makes devices for plans.

#include "runtime/device/MakeDevice.h"

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/OneDnn.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <set>

namespace polyrank::runtime {
namespace {

using namespace plan;

/// A kind of device that this program can make.
struct DeviceKind {
  std::string_view target; // by which images and programs name it
  /// Fails if this machine lacks what an image requires. The error goes on from
  /// "the plan's kernels".
  Result<void> (*checkRequirements)(const Image &image);
  /// The advice that ends this error: what the user can do.
  const char *remedy;
  Result<std::unique_ptr<Device>> (*make)(const Image &image,
                                          std::shared_ptr<const HostTeam> team);
  /// Loads an image, and lets go of it.
  Result<void> (*tryImage)(const Image &image);
  /// The library of its calls.
  const char *library;
  Result<void> (*loadLibrary)();
};

Result<std::unique_ptr<Device>> makeCpu(const Image &image,
                                        std::shared_ptr<const HostTeam> team) {
  POLYRANK_ASSIGN(device, CpuDevice::create(image, std::move(team)));
  return std::unique_ptr<Device>(std::move(device));
}

Result<void> tryOnCpu(const Image &image) {
  Result<KernelModule> loaded = KernelModule::load(image);
  return loaded ? Result<void>() : loaded.error();
}

constexpr DeviceKind kinds[] = {{"cpu", KernelModule::checkRequirements,
                                 "compile again here, or with --cpu x86-64-v3",
                                 makeCpu, tryOnCpu, oneDnnLibrary, loadOneDnn}};

/// Lists each name once, in order.
std::string listOf(const std::vector<std::string_view> &names) {
  std::vector<std::string_view> each;
  for (std::string_view name : names)
    if (std::find(each.begin(), each.end(), name) == each.end())
      each.push_back(name);
  return fmt::format("{}", fmt::join(each, ", "));
}

Result<const DeviceKind *> kindOf(const Program &program) {
  std::vector<std::string_view> ours;
  for (const DeviceKind &kind : kinds) {
    if (program.target()->string_view() == kind.target)
      return &kind;
    ours.push_back(kind.target);
  }
  return Error{fmt::format(
      "the plan is for {}; this polyrank-run has {}: compile the model again "
      "for that, or use a polyrank-run that was built with {}",
      program.target()->string_view(), listOf(ours),
      program.target()->string_view())};
}

/// Returns the first image for the kind that this machine can run.
Result<const Image *> chooseImage(const Plan &plan, const DeviceKind &kind) {
  std::vector<std::string> reasons;
  for (const Image *image : *plan.images()) {
    if (image->target()->string_view() != kind.target)
      continue;
    Result<void> can = kind.checkRequirements(*image);
    if (can)
      return image;
    reasons.push_back(can.error().message);
  }
  return Error{fmt::format("the plan's kernels {}: {}",
                           fmt::join(reasons, "; others "), kind.remedy)};
}

bool callsLibrary(const Program &program) {
  auto isCall = [](const Command *command) {
    return command->body_type() == CommandBody::Call;
  };
  for (const Segment *segment : *program.segments())
    if (segment->commands())
      for (const Command *command : *segment->commands()) {
        if (isCall(command))
          return true;
        if (const Loop *loop = command->body_as_Loop())
          if (std::any_of(loop->commands()->begin(), loop->commands()->end(),
                          isCall))
            return true;
      }
  return false;
}

} // namespace

std::shared_ptr<const HostTeam> makeTeam(const Plan &plan) {
  return std::make_shared<HostTeam>(int(plan.threads()),
                                    plan.denormals() == Denormals::flush);
}

Result<std::unique_ptr<Device>>
makeDevice(const Plan &plan, const Program &program,
           std::shared_ptr<const HostTeam> team) {
  POLYRANK_ASSIGN(kind, kindOf(program));
  POLYRANK_ASSIGN(image, chooseImage(plan, *kind));
  return kind->make(*image, std::move(team));
}

Result<std::vector<std::string>> checkDevices(const Plan &plan) {
  std::vector<std::string> machines;
  std::set<const Image *> tried;
  for (const Program *program : *plan.programs()) {
    POLYRANK_ASSIGN(kind, kindOf(*program));
    POLYRANK_ASSIGN(image, chooseImage(plan, *kind));
    if (callsLibrary(*program))
      if (Result<void> loaded = kind->loadLibrary(); !loaded)
        return loaded.error();
    if (!tried.insert(image).second)
      continue;
    if (Result<void> loaded = kind->tryImage(*image); !loaded)
      return loaded.error();
    if (const auto *machine = image->requirements()->machine())
      machines.push_back(machine->str());
  }
  return machines;
}

Result<std::vector<std::string>> librariesOf(const Plan &plan) {
  std::set<std::string> libraries;
  for (const Program *program : *plan.programs())
    if (callsLibrary(*program)) {
      POLYRANK_ASSIGN(kind, kindOf(*program));
      libraries.insert(kind->library);
    }
  return std::vector<std::string>(libraries.begin(), libraries.end());
}

} // namespace polyrank::runtime
