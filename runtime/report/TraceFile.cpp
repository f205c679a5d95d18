// Reads traces, event by event.

#include "runtime/report/TraceFile.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/PlanMesh.h"
#include "support/File.h"
#include "support/RankShare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace polyrank::runtime {
namespace {

/// The fields that are read of an event; others are skipped.
struct Event {
  std::string kind, category, segment; // ph, cat, args.segment
  std::optional<int64_t> rank, number, microbatch, step;
  std::optional<double> begin, length, allStarted; // microseconds
};

int64_t nanosecondsOf(double microseconds) {
  return std::llround(microseconds * 1e3);
}

/// The commands of a step, in their order.
struct Expected {
  const plan::Segment *segment = nullptr;
  uint32_t number = 0, microbatch = 0;
  const char *category = ""; // its kind's name in a trace
  bool endsCollective = false;
};

std::vector<Expected> commandsOf(const plan::Program &program) {
  std::vector<Expected> commands;
  for (const plan::Action *action : *program.schedule()) {
    const plan::Segment &segment = *program.segments()->Get(action->segment());
    if (!segment.commands())
      continue;
    for (uint32_t number = 0; number < segment.commands()->size(); ++number) {
      const plan::Command &command = *segment.commands()->Get(number);
      Expected expected{&segment, number, action->microbatch()};
      expected.category = kindOf(command);
      const plan::Collective *collective = command.body_as_Collective();
      expected.endsCollective =
          collective ? collective->request() == 0 : !isComputed(command);
      commands.push_back(expected);
    }
  }
  return commands;
}

/// Assigns events to their commands.
class Collector {
public:
  explicit Collector(const LoadedPlan &plan)
      : mesh(*plan.plan), ranks(static_cast<size_t>(mesh.ranks())) {
    for (const plan::Program *program : *plan.plan->programs())
      programs.push_back(commandsOf(*program));
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      ranks[rank].expected =
          &programs[programOf(*plan.plan, mesh, int64_t(rank))];
  }

  /// Takes an event. Returns what is wrong with it, or an empty string.
  std::string take(const Event &event) {
    if (event.kind != "X")
      return ""; // the names of tracks
    if (!event.rank || *event.rank < 0 ||
        *event.rank >= static_cast<int64_t>(ranks.size()))
      return fmt::format("an event has pid {}, and the plan has ranks 0 to {}",
                         textOf(event.rank), ranks.size() - 1);
    if (!event.begin || !event.length || !(*event.length >= 0) ||
        !(std::fabs(*event.begin) < 1e15) || !(*event.length < 1e15))
      return fmt::format("rank {}: an event has no ts and dur, in "
                         "microseconds, of which the second is not negative",
                         *event.rank);
    // The first is within the command before it, the second before a step.
    if (event.category == "waiting" || event.category == "data")
      return "";
    Rank &rank = ranks[static_cast<size_t>(*event.rank)];
    if (rank.expected->empty())
      return "the plan has no commands";
    return event.category == "in flight" ? takeFlight(event, rank)
                                         : takeCommand(event, rank);
  }

  /// To be called after the last event.
  Result<void> finish(TraceFile &trace) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      Rank &rank = ranks[r];
      if (std::string missing = findMissing(rank); !missing.empty())
        return Error{
            fmt::format("{}: {}", mesh.describeRank(int64_t(r)), missing)};
      if (rank.steps.empty())
        return Error{
            fmt::format("{} has no step", mesh.describeRank(int64_t(r)))};
      if (rank.steps.size() != ranks[0].steps.size() ||
          rank.firstStep != ranks[0].firstStep)
        return Error{fmt::format(
            "{} has steps {} to {}, and rank 0 steps {} to {}",
            mesh.describeRank(int64_t(r)), rank.firstStep,
            rank.firstStep + rank.steps.size() - 1, ranks[0].firstStep,
            ranks[0].firstStep + ranks[0].steps.size() - 1)};
    }
    trace.firstStep = ranks[0].firstStep;
    for (size_t step = 0; step < ranks[0].steps.size(); ++step) {
      auto &all = trace.steps.emplace_back();
      for (Rank &rank : ranks)
        all.push_back(std::move(rank.steps[step]));
    }
    return {};
  }

private:
  struct Rank {
    const std::vector<Expected> *expected = nullptr; // of its program
    uint64_t firstStep = 0;
    std::vector<TracedStep> steps;
    bool needsFlight = false; // of the latest command
  };

  static std::string textOf(std::optional<int64_t> number) {
    return number ? fmt::format("{}", *number) : "none";
  }
  static std::string describe(const Expected &command) {
    return fmt::format("command {} of segment '{}' in microbatch {}, a {}",
                       command.number, command.segment->name()->str(),
                       command.microbatch, command.category);
  }

  /// Returns what is missing in the rank's events so far.
  std::string findMissing(const Rank &rank) const {
    const std::vector<Expected> &expected = *rank.expected;
    if (rank.needsFlight)
      return fmt::format(
          "step {} lacks the flight of the collective that ends with {}",
          rank.firstStep + rank.steps.size() - 1,
          describe(expected[rank.steps.back().size() - 1]));
    if (!rank.steps.empty() && rank.steps.back().size() < expected.size())
      return fmt::format("step {} has {} of {} commands; it lacks {}",
                         rank.firstStep + rank.steps.size() - 1,
                         rank.steps.back().size(), expected.size(),
                         describe(expected[rank.steps.back().size()]));
    return "";
  }

  std::string takeCommand(const Event &event, Rank &rank) {
    const std::vector<Expected> &expected = *rank.expected;
    auto wrong = [&](const std::string &what) {
      return fmt::format("rank {}: {}", *event.rank, what);
    };
    bool isNew =
        rank.steps.empty() || rank.steps.back().size() == expected.size();
    if (isNew || rank.needsFlight) {
      if (rank.needsFlight)
        return wrong(findMissing(rank));
      if (rank.steps.empty())
        rank.firstStep = static_cast<uint64_t>(event.step.value_or(0));
      rank.steps.emplace_back();
    }
    TracedStep &step = rank.steps.back();
    uint64_t number = rank.firstStep + rank.steps.size() - 1;
    const Expected &next = expected[step.size()];
    if (!event.step || uint64_t(*event.step) != number ||
        event.segment != next.segment->name()->string_view() ||
        event.number != int64_t(next.number) ||
        event.microbatch != int64_t(next.microbatch) ||
        event.category != next.category)
      return wrong(fmt::format(
          "step {} should go on with {}; the next event is command {} of "
          "segment '{}' in microbatch {}, a {}, of step {}",
          number, describe(next), textOf(event.number), event.segment,
          textOf(event.microbatch), event.category, textOf(event.step)));
    TracedCommand command;
    command.begin = nanosecondsOf(*event.begin);
    command.end = command.begin + nanosecondsOf(*event.length);
    const TracedCommand *before =
        !step.empty()           ? &step.back()
        : rank.steps.size() > 1 ? &rank.steps[rank.steps.size() - 2].back()
                                : nullptr;
    if (before && command.begin < before->end)
      return wrong(fmt::format("step {}: {} begins before the command in front "
                               "of it ends",
                               number, describe(next)));
    step.push_back(command);
    rank.needsFlight = next.endsCollective;
    return "";
  }

  std::string takeFlight(const Event &event, Rank &rank) {
    if (!rank.needsFlight)
      return fmt::format("rank {}: a flight of a collective follows a command "
                         "that ends none",
                         *event.rank);
    TracedCommand &command = rank.steps.back().back();
    if (!event.allStarted || !(std::fabs(*event.allStarted) < 1e15))
      return fmt::format(
          "rank {}, step {}: the flight of the collective that "
          "ends with {} does not say when all had started it",
          *event.rank, rank.firstStep + rank.steps.size() - 1,
          describe((*rank.expected)[rank.steps.back().size() - 1]));
    command.flightBegin = nanosecondsOf(*event.begin);
    command.flightEnd = command.flightBegin + nanosecondsOf(*event.length);
    command.allStarted = command.flightBegin + nanosecondsOf(*event.allStarted);
    rank.needsFlight = false;
    return "";
  }

  Mesh mesh;
  std::vector<std::vector<Expected>> programs;
  std::vector<Rank> ranks;
};

/// Consumes the JSON: first "otherData", then the events of "traceEvents" one
/// by one. Neither the parser nor this handler recurses.
class Handler : public nlohmann::json_sax<nlohmann::json> {
public:
  Handler(const LoadedPlan &plan, TraceFile &trace)
      : plan(plan), trace(trace), collector(plan) {}

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (isIn("otherData", 2) && keys[1] == "rehearsed")
      trace.isRehearsed = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value),
                  value <= uint64_t(INT64_MAX)
                      ? std::optional<int64_t>(int64_t(value))
                      : std::nullopt);
  }
  bool number_float(number_float_t value, const string_t &) override {
    return number(value, std::nullopt);
  }
  bool binary(binary_t &) override { return refuse("holds binary data"); }

  bool string(string_t &value) override {
    if (isIn("otherData", 2) && keys[1] == "plan")
      return takePlan(value);
    if (isIn("otherData", 3) && keys[1] == "links")
      trace.links.push_back(value);
    if (isIn("traceEvents", 3)) {
      if (keys[2] == "ph")
        event.kind = value;
      else if (keys[2] == "cat")
        event.category = value;
    } else if (isIn("traceEvents", 4) && keys[2] == "args" &&
               keys[3] == "segment") {
      event.segment = value;
    }
    return true;
  }

  bool start_object(size_t) override { return enter(); }
  bool start_array(size_t) override {
    if (keys.empty())
      return refuse(notATrace);
    return enter();
  }
  bool key(string_t &value) override {
    keys.back() = value;
    if (keys.size() == 1 && value == "traceEvents" && !isOfPlan)
      return refuse(
          "does not say of which plan it is, in \"otherData\" before "
          "\"traceEvents\": polyrank-run --trace writes traces that do");
    return true;
  }
  bool end_object() override {
    if (isIn("traceEvents", 3)) {
      if (std::string wrong = collector.take(event); !wrong.empty())
        return refuse(wrong);
      event = {};
    }
    keys.pop_back();
    return true;
  }
  bool end_array() override {
    hasEvents |= isIn("traceEvents", 2);
    keys.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return refuse(fmt::format("is no whole JSON file: what stands at byte {} "
                              "does not go on with it; was it cut off?",
                              position));
  }

  std::string problem;

  Result<void> finish() {
    if (!hasEvents)
      return Error{notATrace};
    return collector.finish(trace);
  }

private:
  static constexpr const char *notATrace =
      "is no trace of polyrank-run: it has no list of \"traceEvents\"";

  /// Returns true if the current value is below the top-level field `field`, at
  /// this depth; keys[n] is the latest key at level n.
  bool isIn(const char *field, size_t depth) const {
    return keys.size() == depth && keys[0] == field;
  }

  bool enter() {
    constexpr size_t deepest = 8;
    keys.emplace_back();
    return keys.size() <= deepest ||
           refuse(fmt::format("is nested deeper than {} levels", deepest));
  }

  bool refuse(const std::string &what) {
    if (problem.empty())
      problem = what;
    return false;
  }

  bool takePlan(const std::string &hash) {
    std::string own = toHex(plan.bytes.hash);
    isOfPlan = hash == own;
    return isOfPlan || refuse(fmt::format("is of plan '{}', and '{}' is {}",
                                          hash, plan.path, own));
  }

  bool takeMachines(std::optional<int64_t> machines) {
    if (!machines || *machines < 1)
      return refuse("does not say on how many machines it was made");
    Result<int64_t> each =
        ranksOfEach("plan", Mesh(*plan.plan).ranks(), *machines);
    if (!each)
      return refuse("was made on several machines: " + each.error().message);
    trace.machines = *machines;
    return true;
  }

  bool number(double value, std::optional<int64_t> whole) {
    if (isIn("otherData", 2) && keys[1] == "machines")
      return takeMachines(whole);
    if (isIn("traceEvents", 3)) {
      if (keys[2] == "ts")
        event.begin = value;
      else if (keys[2] == "dur")
        event.length = value;
      else if (keys[2] == "pid")
        event.rank = whole;
    } else if (isIn("traceEvents", 4) && keys[2] == "args") {
      if (keys[3] == "number")
        event.number = whole;
      else if (keys[3] == "microbatch")
        event.microbatch = whole;
      else if (keys[3] == "step")
        event.step = whole;
      else if (keys[3] == "all started after us")
        event.allStarted = value;
    }
    return true;
  }

  const LoadedPlan &plan;
  TraceFile &trace;
  Collector collector;
  std::vector<std::string> keys; // of each object or array that is open
  Event event;
  bool isOfPlan = false, hasEvents = false;
};

} // namespace

Result<TraceFile> readTrace(const std::string &path, const LoadedPlan &plan) {
  if (Result<InputFile> file = InputFile::open(path); !file)
    return file.error();
  std::ifstream stream(path);
  TraceFile trace;
  Handler handler(plan, trace);
  if (!nlohmann::json::sax_parse(stream, &handler))
    return Error{fmt::format("trace '{}': {}", path, handler.problem)};
  if (Result<void> whole = handler.finish(); !whole)
    return Error{fmt::format("trace '{}': {}", path, whole.error().message)};
  return std::move(trace);
}

} // namespace polyrank::runtime
