// Links along the axes of the mesh, to which a run is held back (--link).

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/StepTimes.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The links of some axes, in the compiler's words: what its cost model takes a
/// collective to last, the transport then makes it last at least.
class Links {
public:
  Links() = default;

  /// Of `specifications`, each AXIS=MICROSECONDS:GB_PER_S as polyrank-compile
  /// takes them; the last of an axis counts. Fails with what is wrong with one.
  static Result<Links> parse(const Mesh &mesh,
                             std::span<const std::string> specifications);

  /// Of a group over these axes: latency and speed of the slowest among them,
  /// each by itself. None where no link of them is given, or the group is one
  /// rank.
  std::optional<PacedLink> of(const AxisRefs *axes) const;

  /// `times` with what collectives and sends take over these links, by which
  /// the transport holds them back; nothing where none is given.
  StepTimes timesOver(StepTimes times, const LoadedPlan &plan) const;

  /// "--link data=20:2: collectives over data take at least 20 us a round and
  /// the time that 2 GB/s give"; empty without links.
  std::string describe() const;

private:
  std::optional<int64_t> timeOf(const plan::Program &program,
                                const plan::Command &command) const;

  struct AxisLink {
    std::string axis;
    double microseconds = 0, gigabytes = 0;
    PacedLink link;
  };
  std::vector<std::optional<AxisLink>> byAxis;
};

} // namespace polyrank::runtime
