// The targets that a plan may be for.

#include "runtime/plan/PlanTargets.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace polyrank::runtime {

using namespace plan;

std::span<const PlanTarget> planTargets() {
  static constexpr ImageFormat cpuFormats[] = {ImageFormat::elf};
  static constexpr CallBody cpuCalls[] = {CallBody::CpuGemm,
                                          CallBody::CpuAttention};
  static constexpr ImageFormat cudaFormats[] = {ImageFormat::cubin,
                                                ImageFormat::ptx};
  static constexpr CallBody cudaCalls[] = {CallBody::CudaGemm};
  static constexpr PlanTarget targets[] = {
      {"cpu", cpuFormats, LaunchBody::CpuLaunch, cpuCalls},
      {"cuda", cudaFormats, LaunchBody::CudaLaunch, cudaCalls,
       /*hasEntries=*/true}};
  return targets;
}

std::string namesOf(std::span<const PlanTarget> targets) {
  std::vector<std::string_view> names;
  for (const PlanTarget &target : targets)
    names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const PlanTarget *findTarget(std::string_view name,
                             std::span<const PlanTarget> targets) {
  auto found = std::find_if(
      targets.begin(), targets.end(),
      [&](const PlanTarget &target) { return target.name == name; });
  return found == targets.end() ? nullptr : &*found;
}

const Image *firstImage(const Plan &plan, std::string_view target) {
  for (const Image *image : *plan.images())
    if (image->target()->string_view() == target)
      return image;
  return nullptr;
}

std::string kernelOf(const Plan &plan, const Launch &launch) {
  for (const PlanTarget &target : planTargets())
    if (target.launch == launch.body_type())
      return firstImage(plan, target.name)
          ->symbols()
          ->Get(launch.kernel())
          ->str();
  return "";
}

} // namespace polyrank::runtime
