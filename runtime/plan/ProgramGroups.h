// Which programs of a plan the groups of one of them are made of.

#pragma once

#include "runtime/plan/PlanMesh.h"

#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// Of a plan whose places and groups are verified. A rank of each program, its
/// first one, stands for all of its ranks: in any group of it the others' ranks
/// are their first ones too, or run the same program as one that is.
class ProgramGroups {
public:
  ProgramGroups(const plan::Plan &plan, const Mesh &mesh);

  /// Whether ranks of other programs belong to the group of this number.
  bool spans(uint32_t program, uint32_t group) const {
    return membersOf(program, group).size() > 1;
  }
  /// The programs whose ranks belong to it, ascending.
  const std::vector<uint32_t> &membersOf(uint32_t program,
                                         uint32_t group) const {
    return members[program][group];
  }
  /// The program of the member with this index, in a group over axes at whose
  /// coordinates programs are.
  uint32_t memberOf(uint32_t program, uint32_t group, uint32_t index) const;

  /// The same for lists of axes that give the same groups of ranks: the axes,
  /// and which programs they are.
  using Key =
      std::pair<std::vector<std::vector<int64_t>>, std::vector<uint32_t>>;
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
