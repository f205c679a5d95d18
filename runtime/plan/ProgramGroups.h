// The programs that the members of each communication group run.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Queues.h"

#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// The sub-axes of a list, in the shortest form: lists that describe the same
/// groups of ranks, in the same order, give the same.
AxisDigits digitsOf(const AxisRefs &axes);

/// The groups of a plan whose places and groups are verified. The first rank of
/// each program represents all its ranks: in any of its groups the other
/// members are first ranks of their programs too, or run the same program as
/// one that is.
class ProgramGroups {
public:
  ProgramGroups(const plan::Plan &plan, const Mesh &mesh);

  /// True if ranks of other programs belong to group number `group`.
  bool spans(uint32_t program, uint32_t group) const {
    return membersOf(program, group).size() > 1;
  }
  /// The programs whose ranks belong to the group, ascending.
  const std::vector<uint32_t> &membersOf(uint32_t program,
                                         uint32_t group) const {
    return members[program][group];
  }
  /// The program of the member with this index, in a group over axes whose
  /// coordinates distinguish programs.
  uint32_t memberOf(uint32_t program, uint32_t group, uint32_t index) const;

  /// A key that is equal for lists of axes that give the same groups of ranks:
  /// the axes, and the programs of the members.
  using Key = std::pair<AxisDigits, std::vector<uint32_t>>;
  Key keyOf(uint32_t program, uint32_t group) const;
  std::string describe(uint32_t program, uint32_t group) const {
    return mesh.describe(axesOf(program, group));
  }

private:
  const AxisRefs *axesOf(uint32_t program, uint32_t group) const {
    return plan.programs()->Get(program)->groups()->Get(group)->axes();
  }

  const plan::Plan &plan;
  const Mesh &mesh;
  std::vector<std::vector<std::vector<uint32_t>>> members;
};

} // namespace polyrank::runtime
