// Finds the programs of a group's ranks by the coordinates in `at`.

#include "runtime/plan/ProgramGroups.h"

#include <algorithm>
#include <map>

namespace polyrank::runtime {

AxisDigits digitsOf(const AxisRefs &axes) {
  AxisDigits digits;
  for (const plan::AxisRef *ref : axes)
    digits.push_back({ref->axis(), ref->pre(), ref->size()});
  return shortestOf(digits);
}

ProgramGroups::ProgramGroups(const plan::Plan &plan, const Mesh &mesh)
    : plan(plan), mesh(mesh) {
  // A first rank's number without the digits of a group, which is the same for
  // all members.
  auto restOf = [&](int64_t rank, const AxisRefs *axes) {
    for (const plan::AxisRef *ref : *axes)
      rank -= mesh.digit(rank, *ref) *
              (mesh.size(ref->axis()) / (ref->pre() * ref->size())) *
              mesh.stride(ref->axis());
    return rank;
  };
  uint32_t count = plan.programs()->size();
  std::vector<int64_t> ranks;
  for (const plan::Program *program : *plan.programs())
    ranks.push_back(firstRankOf(mesh, program->at()));
  members.resize(count);
  for (uint32_t p = 0; p < count; ++p)
    for (const plan::AxisList *group : *plan.programs()->Get(p)->groups()) {
      auto &of = members[p].emplace_back();
      int64_t rest = restOf(ranks[p], group->axes());
      for (uint32_t q = 0; q < count; ++q)
        if (q == p || restOf(ranks[q], group->axes()) == rest)
          of.push_back(q);
    }
}

uint32_t ProgramGroups::memberOf(uint32_t program, uint32_t group,
                                 uint32_t index) const {
  const AxisRefs *axes = axesOf(program, group);
  for (uint32_t member : membersOf(program, group))
    if (mesh.linearIndex(firstRankOf(mesh, plan.programs()->Get(member)->at()),
                         axes) == int64_t(index))
      return member;
  return program;
}

ProgramGroups::Key ProgramGroups::keyOf(uint32_t program,
                                        uint32_t group) const {
  return {digitsOf(*axesOf(program, group)), membersOf(program, group)};
}

} // namespace polyrank::runtime
