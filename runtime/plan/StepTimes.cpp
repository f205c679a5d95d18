// Writes and reads files of times.

#include "runtime/plan/StepTimes.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/PlanMesh.h"
#include "support/File.h"
#include "support/Json.h"
#include "support/JsonBudget.h"

#include <cmath>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// A segment of one of the programs.
struct SegmentNumber {
  size_t program = 0, segment = 0;
};

const plan::Segment &segmentOf(const LoadedPlan &plan, SegmentNumber at) {
  return *plan.program(static_cast<uint32_t>(at.program))
              .segments()
              ->Get(static_cast<uint32_t>(at.segment));
}

const plan::Command &commandOf(const LoadedPlan &plan, SegmentNumber at,
                               size_t number) {
  return *segmentOf(plan, at).commands()->Get(static_cast<uint32_t>(number));
}

std::string placeOf(const LoadedPlan &plan, size_t program) {
  return describePlaces(Mesh(*plan.plan),
                        plan.program(static_cast<uint32_t>(program)).at());
}

/// Returns "segment 'update'", with its place if there are several programs.
std::string describeSegment(const LoadedPlan &plan, SegmentNumber at) {
  std::string place = placeOf(plan, at.program);
  return fmt::format("segment '{}'{}{}", segmentOf(plan, at).name()->str(),
                     place.empty() ? "" : " at ", place);
}

std::string originOf(const plan::Command &command) {
  return command.origin() ? command.origin()->str() : "";
}

/// Parses one file; `path` is for messages.
class Reader {
public:
  Reader(const std::string &path, const LoadedPlan &plan)
      : path(path), plan(plan), times(plannedTimesOf(plan)) {
    for (const ProgramTimes &program : times) {
      auto &given = isGiven.emplace_back();
      for (const std::vector<int64_t> &segment : program)
        given.emplace_back(segment.size(), false);
    }
  }

  Result<StepTimes> read(std::string_view text) {
    if (Budget budget(text.size()); !takeJson(budget, text))
      return wrong(budget.describe());
    json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (file.is_discarded())
      return wrong("is no whole JSON file");
    if (!file.is_object() || textOf(file, "report") != "times")
      return wrong("is no file of times: it does not say \"report\": "
                   "\"times\"; polyrank-inspect PLAN --times FILE writes one");
    if (file.value("version", json()) != json(reportVersion))
      return wrong(fmt::format("has another version than {}; write it anew "
                               "with polyrank-inspect PLAN --times FILE",
                               reportVersion));
    std::string hash = toHex(plan.bytes.hash);
    if (textOf(file, "plan") != hash)
      return wrong(fmt::format("has the times of plan '{}', and '{}' is {}; "
                               "write them with polyrank-inspect {} --times "
                               "FILE",
                               textOf(file, "plan"), plan.path, hash,
                               plan.path));
    json segments = file.value("segments", json());
    if (!segments.is_array())
      return wrong("has no list of segments");
    for (const json &segment : segments)
      if (Result<void> taken = takeSegment(segment); !taken)
        return taken.error();
    if (Result<void> whole = checkWhole(); !whole)
      return whole.error();
    return std::move(times);
  }

private:
  Error wrong(const std::string &what) const {
    return Error{fmt::format("times '{}': {}", path, what)};
  }
  Error wrong(SegmentNumber at, size_t number, const std::string &what) const {
    const plan::Command &command = commandOf(plan, at, number);
    return wrong(fmt::format(
        "{}, command {} ({}{}{}): {}", describeSegment(plan, at), number,
        describeWork(*plan.plan, command),
        originOf(command).empty() ? "" : " of ", originOf(command), what));
  }

  /// Returns a field's text; empty if it is missing or no text.
  static std::string textOf(const json &object, const char *field) {
    json value = object.value(field, json());
    return value.is_string() ? value.get<std::string>() : "";
  }

  Result<void> takeSegment(const json &given) {
    if (!given.is_object())
      return wrong("a segment is no object");
    std::string name = textOf(given, "name"), place = textOf(given, "at");
    SegmentNumber at;
    while (at.program < times.size() && placeOf(plan, at.program) != place)
      ++at.program;
    if (at.program == times.size())
      return wrong(fmt::format("the plan has no program at '{}' (of segment "
                               "'{}')",
                               place, name));
    size_t segments = times[at.program].size();
    while (at.segment < segments &&
           segmentOf(plan, at).name()->string_view() != name)
      ++at.segment;
    if (at.segment == segments)
      return wrong(fmt::format("the plan has no segment '{}'{}{}", name,
                               place.empty() ? "" : " at ", place));
    json commands = given.value("commands", json());
    if (!commands.is_array())
      return wrong(describeSegment(plan, at) + " has no list of commands");
    for (const json &command : commands)
      if (Result<void> taken = takeCommand(at, command); !taken)
        return taken;
    return {};
  }

  Result<void> takeCommand(SegmentNumber place, const json &given) {
    std::vector<int64_t> &segment = times[place.program][place.segment];
    auto isTaken = isGiven[place.program][place.segment].begin();
    if (!given.is_object())
      return wrong(describeSegment(plan, place) + ": a command is no object");
    json number = given.value("number", json());
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() >= segment.size())
      return wrong(fmt::format("{} has commands 0 to {}, and no {}",
                               describeSegment(plan, place),
                               int64_t(segment.size()) - 1, number.dump()));
    size_t at = number.get<size_t>();
    if (!isComputed(commandOf(plan, place, at)))
      return wrong(place, at,
                   "has a time, and takes as long as it takes; --link holds "
                   "collectives back");
    if (isTaken[at])
      return wrong(place, at, "has two times");
    json time = given.value("microseconds", json());
    double value = time.is_number() ? time.get<double>() : NAN;
    if (!(value >= 0 && value <= mostMicroseconds))
      return wrong(place, at,
                   fmt::format("{} is not from 0 to {:.3g} microseconds",
                               time.is_null() ? "nothing" : time.dump(),
                               mostMicroseconds));
    isTaken[at] = true;
    segment[at] = std::llround(value * 1e6);
    return {};
  }

  Result<void> checkWhole() const {
    for (size_t p = 0; p < times.size(); ++p)
      for (size_t segment = 0; segment < times[p].size(); ++segment)
        for (size_t number = 0; number < times[p][segment].size(); ++number)
          if (!isGiven[p][segment][number] &&
              isComputed(commandOf(plan, {p, segment}, number)))
            return wrong({p, segment}, number, "has no time");
    double total = 0; // one program may wait for all others
    for (uint32_t p = 0; p < plan.programs(); ++p)
      for (const plan::Action *action : *plan.program(p).schedule())
        for (int64_t time : times[p][action->segment()])
          total += 1e-6 * static_cast<double>(time);
    if (total > mostMicroseconds)
      return wrong(fmt::format("a step would compute for {:.3g} microseconds, "
                               "and the most is {:.3g}, a day",
                               total, mostMicroseconds));
    return {};
  }

  const std::string &path;
  const LoadedPlan &plan;
  StepTimes times;
  std::vector<std::vector<std::vector<bool>>> isGiven;
};

} // namespace

StepTimes plannedTimesOf(const LoadedPlan &plan) {
  StepTimes times;
  for (uint32_t p = 0; p < plan.programs(); ++p) {
    ProgramTimes &program = times.emplace_back();
    for (const plan::Segment *segment : *plan.program(p).segments()) {
      std::vector<int64_t> &some = program.emplace_back();
      if (segment->commands())
        for (const plan::Command *command : *segment->commands())
          some.push_back(command->body_as_Wait() || command->body_as_Receive()
                             ? 0
                             : static_cast<int64_t>(command->picoseconds()));
    }
  }
  return times;
}

std::string timesText(const StepTimes &times, const LoadedPlan &plan,
                      const std::string &source) {
  ordered_json file = newReport("times");
  file["plan"] = toHex(plan.bytes.hash);
  file["model"] = plan.plan->model() ? plan.plan->model()->str() : "";
  file["source"] = source;
  file["segments"] = ordered_json::array();
  for (size_t p = 0; p < times.size(); ++p)
    for (size_t segment = 0; segment < times[p].size(); ++segment) {
      SegmentNumber at{p, segment};
      ordered_json commands = ordered_json::array();
      for (size_t number = 0; number < times[p][segment].size(); ++number) {
        const plan::Command &command = commandOf(plan, at, number);
        if (isComputed(command))
          commands.push_back(
              {{"number", number},
               {"command", describeWork(*plan.plan, command)},
               {"op", originOf(command)},
               {"microseconds",
                1e-6 * static_cast<double>(times[p][segment][number])}});
      }
      ordered_json entry{{"name", segmentOf(plan, at).name()->str()}};
      if (std::string place = placeOf(plan, p); !place.empty())
        entry["at"] = place;
      entry["commands"] = std::move(commands);
      file["segments"].push_back(std::move(entry));
    }
  return toText(file);
}

Result<StepTimes> readTimes(const std::string &path, const LoadedPlan &plan) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  std::string text(file.size(), '\0');
  if (Result<void> got = file.readAt(0, text.data(), text.size()); !got)
    return got.error();
  return Reader(path, plan).read(text);
}

} // namespace polyrank::runtime
