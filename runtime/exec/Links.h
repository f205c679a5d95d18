// Emulated links along the axes of the mesh, to which a run is slowed down
// (--link).

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/StepTimes.h"
#include "support/LinkSpec.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The links of some axes, with the parameters of the compiler's cost model:
/// the communicator makes a collective last at least as long as that model
/// says.
class Links {
public:
  Links() = default;

  /// Parses `specifications`, each AXIS=MICROSECONDS:GB_PER_S as in
  /// polyrank-compile; the last one of an axis counts.
  static Result<Links> parse(const Mesh &mesh,
                             std::span<const std::string> specifications);

  /// Returns the link of a group over these axes: the largest latency and the
  /// lowest bandwidth among them, each by itself. Nothing if none of them has a
  /// link, or the group is one rank.
  std::optional<LinkTime> of(const AxisRefs *axes) const;

  /// Returns `times` with the times of collectives and sends replaced by what
  /// they take over these links; 0 where no link is given.
  StepTimes timesOver(StepTimes times, const LoadedPlan &plan) const;

  /// "--link data=20:2: collectives over data take at least 20 us a round and
  /// the time that 2 GB/s give"; empty without links.
  std::string describe() const;

private:
  std::optional<int64_t> timeOf(const plan::Program &program,
                                const plan::Command &command) const;

  std::vector<std::optional<LinkSpec>> byAxis;
};

} // namespace polyrank::runtime
