// Verifies the images of kernels, and what each program and launch takes from
// them.

#include "runtime/plan/Verifier.h"

namespace polyrank::runtime {

using namespace plan;

bool PlanVerifier::verifyImage(const std::string &what, const Image &image) {
  std::string_view name = image.target()->string_view();
  const PlanTarget *target = findTarget(name, targets);
  if (!target)
    return fail("{}: target '{}' does not exist; there are: {}", what, name,
                namesOf(targets));
  if (std::find(target->formats.begin(), target->formats.end(),
                image.format()) == target->formats.end())
    return fail("{}: the target '{}' has no images of format {}", what, name,
                int(image.format()));
  uint32_t kernels = image.symbols()->size();
  if (kernels && (!image.bytes() || image.bytes()->size() == 0))
    return fail("{}: names {} kernels and has no bytes", what, kernels);
  uint32_t others = firstImage(plan, name)->symbols()->size();
  if (kernels != others)
    return fail("{}: has {} kernels, and the first image for '{}' has {}", what,
                kernels, name, others);
  return true;
}

bool PlanVerifier::verifyImages() {
  if (plan.images()->size() == 0)
    return fail("has no image of kernels");
  if (plan.images()->size() > maxImages)
    return fail("has {} images of kernels; at most {} are possible",
                plan.images()->size(), maxImages);
  for (uint32_t number = 0; number < plan.images()->size(); ++number)
    if (!verifyImage(fmt::format("image {}", number),
                     *plan.images()->Get(number)))
      return false;
  return true;
}

bool PlanVerifier::verifyTarget() {
  std::string_view name = program->target()->string_view();
  if (!firstImage(plan, name))
    return fail("runs on the target '{}', for which there is no image", name);
  target = findTarget(name, targets);
  return true;
}

/// Requires that the launch is for a CPU.
bool PlanVerifier::verifyCpuLaunch(const std::string &what,
                                   const CpuLaunch &launch) {
  if (launch.range() < 0 || uint64_t(launch.range()) > maxElements ||
      launch.grain() < 1)
    return fail("{}: range {} in grains of {}", what, launch.range(),
                launch.grain());
  return true;
}

bool PlanVerifier::verifyLaunchBody(const std::string &what,
                                    const Launch &launch) {
  if (launch.body_type() != target->launch)
    return fail("{}: a launch of type {}, where the target '{}' has {}", what,
                int(launch.body_type()), target->name,
                EnumNameLaunchBody(target->launch));
  uint32_t kernels = firstImage(plan, target->name)->symbols()->size();
  if (launch.kernel() >= kernels)
    return fail("{}: kernel {} of {}", what, launch.kernel(), kernels);
  if (const CpuLaunch *cpu = launch.body_as_CpuLaunch())
    return verifyCpuLaunch(what, *cpu);
  return true;
}

} // namespace polyrank::runtime
