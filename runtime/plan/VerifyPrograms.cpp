// Verifies the programs of a plan together: each rank has one, they agree on
// what they share by name, and every send has its receive.

#include "runtime/plan/ProgramGroups.h"
#include "runtime/plan/Verifier.h"

#include <algorithm>
#include <map>

namespace polyrank::runtime {

using namespace plan;

/// All programs name the same axes, and each coordinate of these belongs to one
/// program.
bool PlanVerifier::verifyPlaces() {
  const auto &programs = *plan.programs();
  if (programs.size() == 0 || programs.size() > maxPrograms)
    return fail("has {} programs; 1 to {} are possible", programs.size(),
                maxPrograms);
  Mesh mesh(plan);
  auto axesOf = [](const Program &each) {
    std::vector<int32_t> axes;
    if (each.at())
      for (const Place *place : *each.at())
        axes.push_back(place->axis());
    return axes;
  };
  std::vector<int32_t> axes = axesOf(*programs.Get(0));
  int64_t needed = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= mesh.axes())
      return fail(
          "a program is at a coordinate of axis {} of a mesh of {} axes",
          axes[i], mesh.axes());
    if (std::count(axes.begin(), axes.end(), axes[i]) > 1)
      return fail("a program is at two coordinates of axis '{}'",
                  mesh.name(axes[i]));
    needed *= mesh.size(axes[i]);
  }
  std::map<std::vector<int64_t>, uint32_t> seen;
  for (uint32_t number = 0; number < programs.size(); ++number) {
    const Program &each = *programs.Get(number);
    if (!verifyAligned("places", each.at()))
      return false;
    if (axesOf(each) != axes)
      return fail("program {} names other axes than program 0, or in another "
                  "order",
                  number);
    std::vector<int64_t> coordinates;
    if (each.at())
      for (const Place *place : *each.at()) {
        if (place->coordinate() < 0 ||
            place->coordinate() >= mesh.size(place->axis()))
          return fail("program {} is at {}={}, and the axis has size {}",
                      number, mesh.name(place->axis()), place->coordinate(),
                      mesh.size(place->axis()));
        coordinates.push_back(place->coordinate());
      }
    auto [earlier, isFirst] = seen.insert({coordinates, number});
    if (!isFirst)
      return fail("programs {} and {} are both for the ranks at {}",
                  earlier->second, number,
                  axes.empty() ? "all coordinates"
                               : describePlaces(mesh, each.at()));
  }
  if (int64_t(programs.size()) != needed)
    return fail("has {} programs for {} coordinates: some ranks have none",
                programs.size(), needed);
  return true;
}

namespace {

std::vector<int64_t> sizesOf(const Dims *dims) {
  std::vector<int64_t> sizes;
  if (dims)
    for (const Dim *dim : *dims)
      sizes.push_back(dim->size());
  return sizes;
}

std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : "";
}

/// Returns how two arguments of one name differ; empty if they agree.
std::string findDifference(const Argument &a, const Argument &b) {
  if (a.role() != b.role())
    return "the role";
  if (a.dtype() != b.dtype())
    return "the dtype";
  if (sizesOf(a.dims()) != sizesOf(b.dims()))
    return "the shape";
  bool sameView = !a.view() == !b.view();
  if (sameView && a.view()) {
    auto stridesOf = [](const View &view) {
      return view.strides() ? std::vector<int64_t>(view.strides()->begin(),
                                                   view.strides()->end())
                            : std::vector<int64_t>();
    };
    sameView = a.view()->stored() == b.view()->stored() &&
               a.view()->base() == b.view()->base() &&
               stridesOf(*a.view()) == stridesOf(*b.view());
  }
  if (!sameView)
    return "the view";
  if (textOf(a.state_of()) != textOf(b.state_of()) ||
      textOf(a.state_suffix()) != textOf(b.state_suffix()))
    return "whose state it is";
  if (a.index_limit() != b.index_limit() ||
      a.index_ignore() != b.index_ignore())
    return "the indices that are allowed";
  if (a.batch_dim() != b.batch_dim())
    return "the dim of the samples";
  if (a.rate() != b.rate() || a.relative() != b.relative())
    return "the learning rate";
  return "";
}

} // namespace

/// Arguments and outputs of the same name must agree in all programs, since
/// inputs, files and metrics are found by name.
bool PlanVerifier::verifySharedNames() {
  Mesh mesh(plan);
  std::map<std::string, std::pair<const Argument *, const Program *>> arguments;
  std::map<std::string, std::pair<const Output *, const Program *>> outputs;
  auto differ = [&](const char *kind, const std::string &name, const Program &a,
                    const Program &b, const std::string &what) {
    return fail("the programs at {} and {} both have {} '{}', and {} differs",
                describePlaces(mesh, a.at()), describePlaces(mesh, b.at()),
                kind, name, what);
  };
  for (const Program *each : *plan.programs()) {
    for (const Argument *argument : *each->arguments()) {
      auto [first, isNew] =
          arguments.insert({argument->name()->str(), {argument, each}});
      if (isNew)
        continue;
      if (std::string what = findDifference(*first->second.first, *argument);
          !what.empty())
        return differ("argument", first->first, *first->second.second, *each,
                      what);
    }
    for (const Output *output : *each->outputs()) {
      auto [first, isNew] =
          outputs.insert({output->name()->str(), {output, each}});
      if (isNew || first->second.second == each)
        continue;
      const Output &other = *first->second.first;
      if (other.kind() != output->kind() || other.dtype() != output->dtype() ||
          sizesOf(other.dims()) != sizesOf(output->dims()) ||
          other.batch_dim() != output->batch_dim() ||
          other.geometric() != output->geometric())
        return differ("output", first->first, *first->second.second, *each,
                      "its kind, dtype or shape");
    }
  }
  return true;
}

namespace {

/// How a program sends values of one id to another program, or receives them
/// from it.
struct ChannelEnd {
  uint32_t from, to, slots;
  uint64_t bytes;
  std::string what; // the command
  uint64_t executions = 0;
};
/// Keyed by id and the other program.
using ChannelEnds = std::map<std::pair<uint64_t, uint32_t>, ChannelEnd>;

struct ProgramEnds {
  ChannelEnds sends, receives;
};

} // namespace

/// The sum of all times must not overflow.
bool PlanVerifier::verifyTimes() {
  Checked all = 0;
  auto timesOf = [](const auto &commands) {
    Checked sum = 0;
    for (const Command *command : commands)
      sum = sum + Checked(command->picoseconds());
    return sum;
  };
  for (const Program *each : *plan.programs()) {
    std::vector<Checked> segments;
    for (const Segment *segment : *each->segments())
      segments.push_back(segment->commands() ? timesOf(*segment->commands())
                                             : Checked(0));
    for (const Action *action : *each->schedule())
      all = all + segments[action->segment()];
  }
  return all.fits(maxPicoseconds) ||
         fail("its commands take {} picoseconds in a step; at most {} are "
              "possible",
              all.value(), maxPicoseconds);
}

bool PlanVerifier::verifyTransfers() {
  Mesh mesh(plan);
  ProgramGroups groups(plan, mesh);
  std::vector<ProgramEnds> all(plan.programs()->size());
  for (uint32_t number = 0; number < all.size(); ++number) {
    program = plan.programs()->Get(number);
    std::vector<uint64_t> executions(program->segments()->size());
    for (const Action *action : *program->schedule())
      ++executions[action->segment()];
    auto add = [&](ChannelEnds &ends, uint32_t other, uint64_t id,
                   ChannelEnd end, uint64_t times) {
      auto [first, isNew] = ends.insert({{id, other}, end});
      ChannelEnd &known = first->second;
      if (!isNew && (known.from != end.from || known.to != end.to ||
                     known.slots != end.slots || known.bytes != end.bytes))
        return fail("at {}: {}: value {} has another channel than in {}",
                    describePlaces(mesh, program->at()), end.what, id,
                    known.what);
      known.executions += times;
      return true;
    };
    for (uint32_t s = 0; s < program->segments()->size(); ++s) {
      const Segment &segment = *program->segments()->Get(s);
      uint32_t count = segment.commands() ? segment.commands()->size() : 0;
      for (uint32_t c = 0; c < count; ++c) {
        const Command &command = *segment.commands()->Get(c);
        if (const Send *send = command.body_as_Send()) {
          if (!add(all[number].sends,
                   groups.memberOf(number, send->group(), send->to()),
                   send->id(),
                   {send->from(), send->to(), send->slots(), send->bytes(),
                    describe(segment, c)},
                   executions[s]))
            return false;
        } else if (const Receive *receive = command.body_as_Receive()) {
          if (!add(all[number].receives,
                   groups.memberOf(number, receive->group(), receive->from()),
                   receive->id(),
                   {receive->from(), receive->to(), receive->slots(),
                    receive->bytes(), describe(segment, c)},
                   executions[s]))
            return false;
        }
      }
    }
  }
  auto placeOf = [&](uint32_t number) {
    return describePlaces(mesh, plan.programs()->Get(number)->at());
  };
  for (uint32_t number = 0; number < all.size(); ++number) {
    for (auto &[key, end] : all[number].receives)
      if (!all[key.second].sends.contains({key.first, number}))
        return fail("at {}: {}: receives value {} from {}, where nothing sends "
                    "it there",
                    placeOf(number), end.what, key.first, placeOf(key.second));
    for (auto &[key, end] : all[number].sends) {
      auto found = all[key.second].receives.find({key.first, number});
      if (found == all[key.second].receives.end())
        return fail("at {}: {}: sends value {} to {}, where nothing receives "
                    "it",
                    placeOf(number), end.what, key.first, placeOf(key.second));
      const ChannelEnd &other = found->second;
      auto differ = [&](const char *what, uint64_t here, uint64_t there) {
        return here == there ||
               fail("value {}: {} {} at {} in {}, and {} at {} in {}",
                    key.first, what, here, placeOf(number), end.what, there,
                    placeOf(key.second), other.what);
      };
      if (!differ("comes from index", end.from, other.from) ||
          !differ("goes to index", end.to, other.to) ||
          !differ("has slots:", end.slots, other.slots) ||
          !differ("has bytes:", end.bytes, other.bytes) ||
          !differ("has executions in a step:", end.executions,
                  other.executions))
        return false;
    }
  }
  return true;
}

} // namespace polyrank::runtime
