// The targets that a plan may be for: what of the schema belongs to which kind
// of device.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <span>
#include <string>
#include <string_view>

namespace polyrank::runtime {

/// A kind of device, and what a plan may hold for it.
struct PlanTarget {
  std::string_view name; // of images and programs: "cpu"
  std::span<const plan::ImageFormat> formats;
  plan::LaunchBody launch; // the only one; NONE if it has no kernels
  std::span<const plan::CallBody> calls;
  /// True if its images are packed and have an entry for each kernel.
  bool hasEntries = false;
};

/// All targets of this version of the schema.
std::span<const PlanTarget> planTargets();

/// Lists the names of targets: "cpu, cuda".
std::string namesOf(std::span<const PlanTarget> targets);

/// The target of this name among `targets`, or null.
const PlanTarget *findTarget(std::string_view name,
                             std::span<const PlanTarget> targets);

/// The first image for a target, or null. All of its images hold the same
/// kernels.
const plan::Image *firstImage(const plan::Plan &plan, std::string_view target);

/// The kernel of a launch in a verified plan, as reports call it: its symbol in
/// the first image for the target of the launch.
std::string kernelOf(const plan::Plan &plan, const plan::Launch &launch);

} // namespace polyrank::runtime
