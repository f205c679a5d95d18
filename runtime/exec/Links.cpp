// Reads --link, with the bounds of the compiler's cost model.

#include "runtime/exec/Links.h"

#include "runtime/plan/CollectiveTime.h"
#include "runtime/plan/Enums.h"
#include "support/Names.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {

Result<Links> Links::parse(const Mesh &mesh,
                           std::span<const std::string> specifications) {
  Links links;
  if (specifications.empty())
    return links;
  std::vector<std::string> names;
  for (int64_t axis = 0; axis < mesh.axes(); ++axis)
    names.push_back(mesh.name(axis));
  links.byAxis.resize(names.size());
  for (const std::string &text : specifications) {
    Result<LinkSpec> given = LinkSpec::parse(text);
    if (!given)
      return Error{"--link: " + given.error().message};
    auto axis = std::find(names.begin(), names.end(), given->axis);
    if (axis == names.end())
      return Error{fmt::format(
          "--link: link '{}': the mesh has no axis '{}'; it has {}{}", text,
          given->axis,
          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
          nearestWords(given->axis, names))};
    links.byAxis[axis - names.begin()] = *std::move(given);
  }
  return links;
}

std::optional<LinkTime> Links::of(const AxisRefs *axes) const {
  std::optional<LinkTime> slowest;
  if (byAxis.empty() || !axes)
    return slowest;
  for (const plan::AxisRef *ref : *axes) {
    const std::optional<LinkSpec> &given = byAxis[ref->axis()];
    if (!given || ref->size() == 1)
      continue;
    slowest = slowest.value_or(LinkTime()).slower(given->time());
  }
  return slowest;
}

StepTimes Links::timesOver(StepTimes times, const LoadedPlan &plan) const {
  for (uint32_t p = 0; p < times.size(); ++p)
    for (uint32_t segment = 0; segment < times[p].size(); ++segment)
      for (uint32_t number = 0; number < times[p][segment].size(); ++number)
        if (std::optional<int64_t> time = timeOf(
                plan.program(p),
                *plan.program(p).segments()->Get(segment)->commands()->Get(
                    number)))
          times[p][segment][number] = *time;
  return times;
}

/// Returns the time of a send or a collective in picoseconds, nothing for other
/// commands.
std::optional<int64_t> Links::timeOf(const plan::Program &program,
                                     const plan::Command &command) const {
  auto axesOf = [&](uint32_t group) {
    return program.groups()->Get(group)->axes();
  };
  if (const plan::Send *send = command.body_as_Send()) {
    std::optional<LinkTime> link = of(axesOf(send->group()));
    return link ? link->messageTime(send->input()->size()) : 0;
  }
  const plan::Collective *collective = command.body_as_Collective();
  if (!collective)
    return std::nullopt;
  const AxisRefs *axes = axesOf(collective->group());
  std::optional<LinkTime> link = of(axes);
  if (!link)
    return 0;
  CollectiveKind kind = kindOf(collective->kind());
  auto members = static_cast<uint64_t>(Mesh::groupSize(axes));
  uint64_t bytes = 0;
  for (const plan::Transfer *transfer : *collective->transfers())
    bytes += sentBytes(kind, members, transfer->input()->size(),
                       transfer->output()->size());
  return collectiveTime(kind, static_cast<int64_t>(members), bytes, *link);
}

std::string Links::describe() const {
  std::string text;
  for (const std::optional<LinkSpec> &given : byAxis)
    if (given)
      text += fmt::format(
          "{}--link {}={}:{}: collectives over {} take at least "
          "{} us a round and the time that {} GB/s give",
          text.empty() ? "" : "\n", given->axis, given->microseconds,
          given->gigabytes, given->axis, given->microseconds, given->gigabytes);
  return text;
}

} // namespace polyrank::runtime
