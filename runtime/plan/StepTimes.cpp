// Writes and reads files of times.

#include "runtime/plan/StepTimes.h"

#include "runtime/plan/CommandText.h"
#include "support/File.h"
#include "support/Json.h"

#include <cmath>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const plan::Command &commandOf(const LoadedPlan &plan, size_t segment,
                               size_t number) {
  return *plan.program()
              .segments()
              ->Get(static_cast<uint32_t>(segment))
              ->commands()
              ->Get(static_cast<uint32_t>(number));
}

std::string segmentName(const LoadedPlan &plan, size_t segment) {
  return plan.program()
      .segments()
      ->Get(static_cast<uint32_t>(segment))
      ->name()
      ->str();
}

std::string originOf(const plan::Command &command) {
  return command.origin() ? command.origin()->str() : "";
}

/// Takes one file apart; `path` is for messages.
class Reader {
public:
  Reader(const std::string &path, const LoadedPlan &plan)
      : path(path), plan(plan), times(plannedTimesOf(plan)) {
    for (const std::vector<int64_t> &segment : times)
      isGiven.emplace_back(segment.size(), false);
  }

  Result<StepTimes> read(std::string_view text) {
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
  Error wrong(size_t segment, size_t number, const std::string &what) const {
    const plan::Command &command = commandOf(plan, segment, number);
    return wrong(fmt::format(
        "segment '{}', command {} ({}{}{}): {}", segmentName(plan, segment),
        number, describeWork(*plan.plan, command),
        originOf(command).empty() ? "" : " of ", originOf(command), what));
  }

  /// Empty where it is not there or no text.
  static std::string textOf(const json &object, const char *field) {
    json value = object.value(field, json());
    return value.is_string() ? value.get<std::string>() : "";
  }

  Result<void> takeSegment(const json &given) {
    if (!given.is_object())
      return wrong("a segment is no object");
    std::string name = textOf(given, "name");
    size_t segment = 0;
    while (segment < times.size() && segmentName(plan, segment) != name)
      ++segment;
    if (segment == times.size())
      return wrong(fmt::format("the plan has no segment '{}'", name));
    json commands = given.value("commands", json());
    if (!commands.is_array())
      return wrong(fmt::format("segment '{}' has no list of commands", name));
    for (const json &command : commands)
      if (Result<void> taken = takeCommand(segment, command); !taken)
        return taken;
    return {};
  }

  Result<void> takeCommand(size_t segment, const json &given) {
    std::string name = segmentName(plan, segment);
    if (!given.is_object())
      return wrong(fmt::format("segment '{}': a command is no object", name));
    json number = given.value("number", json());
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() >= times[segment].size())
      return wrong(fmt::format("segment '{}' has commands 0 to {}, and no {}",
                               name, int64_t(times[segment].size()) - 1,
                               number.dump()));
    size_t at = number.get<size_t>();
    if (!isComputed(commandOf(plan, segment, at)))
      return wrong(segment, at,
                   "has a time, and takes as long as it takes; --link holds "
                   "collectives back");
    if (isGiven[segment][at])
      return wrong(segment, at, "has two times");
    json time = given.value("microseconds", json());
    double value = time.is_number() ? time.get<double>() : NAN;
    if (!(value >= 0 && value <= mostMicroseconds))
      return wrong(segment, at,
                   fmt::format("{} is not from 0 to {:.3g} microseconds",
                               time.is_null() ? "nothing" : time.dump(),
                               mostMicroseconds));
    isGiven[segment][at] = true;
    times[segment][at] = std::llround(value * 1e6);
    return {};
  }

  Result<void> checkWhole() const {
    for (size_t segment = 0; segment < times.size(); ++segment)
      for (size_t number = 0; number < times[segment].size(); ++number)
        if (!isGiven[segment][number] &&
            isComputed(commandOf(plan, segment, number)))
          return wrong(segment, number, "has no time");
    double total = 0;
    for (const plan::Action *action : *plan.program().schedule())
      for (int64_t time : times[action->segment()])
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
  std::vector<std::vector<bool>> isGiven;
};

} // namespace

StepTimes plannedTimesOf(const LoadedPlan &plan) {
  StepTimes times;
  for (const plan::Segment *segment : *plan.program().segments()) {
    std::vector<int64_t> &some = times.emplace_back();
    if (segment->commands())
      for (const plan::Command *command : *segment->commands())
        some.push_back(command->body_as_Wait()
                           ? 0
                           : static_cast<int64_t>(command->picoseconds()));
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
  for (size_t segment = 0; segment < times.size(); ++segment) {
    ordered_json commands = ordered_json::array();
    for (size_t number = 0; number < times[segment].size(); ++number) {
      const plan::Command &command = commandOf(plan, segment, number);
      if (isComputed(command))
        commands.push_back(
            {{"number", number},
             {"command", describeWork(*plan.plan, command)},
             {"op", originOf(command)},
             {"microseconds",
              1e-6 * static_cast<double>(times[segment][number])}});
    }
    file["segments"].push_back(
        {{"name", segmentName(plan, segment)}, {"commands", commands}});
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
