// polyrank-run --trace: the contents of the file.

#include "test/runtime/launch/RunFixture.h"

#include <algorithm>
#include <map>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

class TraceTest : public RunTest {
protected:
  std::string trace = directory / "trace.json";

  /// Two ranks and two microbatches; the gradient's reduction and the loss's
  /// are in flight at once, in one group.
  plan::PlanT startedPlan() {
    LinearModel model;
    model.data = 2, model.microbatches = 2, model.batch = 4;
    model.weights = weights;
    plan::PlanT built = linearPlan(model);
    built.programs[0]
        ->segments[updateSegment]
        ->commands[2]
        ->body.AsCollective()
        ->group = 0;
    assignQueues(built);
    startEarly(built, updateSegment, 0, 3, 2);
    startEarly(built, updateSegment, 2, 3, 1);
    return built;
  }

  json run(const plan::PlanT &given, const std::string &steps) {
    EXPECT_TRUE(writePlan(plan, serialise(given)));
    auto arguments = training(steps);
    arguments.insert(arguments.end(), {"--trace", trace});
    Process process(arguments, errors);
    EXPECT_EQ(process.wait(), 0) << process.output();
    json parsed = json::parse(readFile(trace), nullptr, false);
    EXPECT_FALSE(parsed.is_discarded());
    return parsed["traceEvents"];
  }

  /// [ts, ts + dur] of a complete event, in nanoseconds.
  static std::pair<int64_t, int64_t> timesOf(const json &event) {
    auto nanoseconds = [](const json &microseconds) {
      return std::llround(microseconds.get<double>() * 1e3);
    };
    return {nanoseconds(event["ts"]),
            nanoseconds(event["ts"]) + nanoseconds(event["dur"])};
  }
};

TEST_F(TraceTest, HasEachCommandOfThePlanAsOftenAsItRan) {
  plan::PlanT given = startedPlan();
  std::map<std::tuple<int, std::string, int>, int>
      seen; // rank, segment, number
  std::map<std::string, int> waits;
  for (const json &event : run(given, "3")) {
    if (event["ph"] != "X" || event["cat"] == "in flight" ||
        event["cat"] == "waiting" || event["cat"] == "data")
      continue;
    const json &arguments = event["args"];
    std::string segment = arguments["segment"];
    int number = arguments["number"];
    ++seen[{event["pid"], segment, number}];
    auto found = std::find_if(
        given.programs[0]->segments.begin(), given.programs[0]->segments.end(),
        [&](const auto &each) { return each->name == segment; });
    ASSERT_NE(found, given.programs[0]->segments.end());
    const plan::CommandT &command = *(*found)->commands.at(number);
    EXPECT_EQ(arguments["op"], command.origin);
    EXPECT_EQ(event["name"], command.origin);
    EXPECT_EQ(arguments["phase"], "forward"); // as all of the test's plans
    EXPECT_EQ(arguments["microbatch"], segment == "next" ? 1 : 0);
    EXPECT_GE(arguments["step"], 1);
    EXPECT_LE(arguments["step"], 3);
    if (event["cat"] == "wait")
      ++waits[arguments["command"]];
  }
  size_t commands = 0;
  for (const auto &segment : given.programs[0]->segments)
    commands += segment->commands.size();
  EXPECT_EQ(seen.size(), 2 * commands);
  for (auto &[which, times] : seen)
    EXPECT_EQ(times, 3) << std::get<1>(which) << " " << std::get<2>(which);
  EXPECT_EQ(waits, (std::map<std::string, int>{{"wait for AllReduce", 12}}));
}

TEST_F(TraceTest, TracksDoNotOverlapAndWaitsLieInTheirCommands) {
  std::map<std::pair<int, int>, std::vector<json>> tracks; // by rank and track
  std::map<std::pair<int, int>, std::string> names;
  std::map<int, std::string> ranks;
  size_t flights = 0;
  for (const json &event : run(startedPlan(), "3")) {
    std::pair<int, int> track(event["pid"], event["tid"]);
    if (event["ph"] == "X")
      tracks[track].push_back(event);
    else if (event["name"] == "thread_name")
      names[track] = event["args"]["name"];
    else if (event["name"] == "process_name")
      ranks[track.first] = event["args"]["name"];
  }
  EXPECT_EQ(ranks,
            (std::map<int, std::string>{{0, "rank 0 (data=0,tensor=0)"},
                                        {1, "rank 1 (data=1,tensor=0)"}}));
  for (auto &[track, events] : tracks) {
    EXPECT_TRUE(names.contains(track));
    EXPECT_EQ(names[track] == "compute", track.second == 0);
    // A wait follows the command that contains it.
    int64_t end = 0;
    std::pair<int64_t, int64_t> command;
    for (const json &event : events) {
      auto [begin, after] = timesOf(event);
      EXPECT_LE(begin, after);
      if (event["cat"] == "waiting") {
        EXPECT_EQ(begin, command.first);
        EXPECT_LE(after, command.second);
        EXPECT_EQ(event["args"]["rank"], 1 - track.first);
        continue;
      }
      EXPECT_GE(begin, end) << names[track];
      end = after, command = {begin, after};
      flights += event["cat"] == "in flight";
    }
  }
  EXPECT_EQ(flights, 2u * 2 * 3);
  EXPECT_EQ(tracks.size(), 2u * 3); // the second one flies beside the first
}

// A collective begins on each rank at its start there, and cannot end before
// all ranks have started it; all ranks share one clock.
TEST_F(TraceTest, CollectivesEndAfterTheLastStartOnOneClock) {
  plan::PlanT given = startedPlan();
  std::map<std::pair<int, int>, std::vector<json>>
      flights; // by step and number
  for (const json &event : run(given, "3"))
    if (event["ph"] == "X" && event["cat"] == "in flight")
      flights[{event["args"]["step"], event["args"]["number"]}].push_back(
          event);
  EXPECT_EQ(flights.size(), 3u * 2);
  for (auto &[which, pair] : flights) {
    ASSERT_EQ(pair.size(), 2u);
    auto first = timesOf(pair[0]), second = timesOf(pair[1]);
    EXPECT_EQ(first.second, second.second);
    EXPECT_EQ(pair[0]["args"]["last starter"], pair[1]["args"]["last starter"]);
    EXPECT_EQ(pair[0]["args"]["bytes"], pair[1]["args"]["bytes"]);
    EXPECT_GE(first.second, std::max(first.first, second.first));
  }
}

TEST_F(TraceTest, IsRefusedOverAFileThatIsNoTrace) {
  ASSERT_TRUE(writePlan(plan, serialise(startedPlan())));
  writeFile(trace, "notes", 5);
  auto arguments = training("1");
  arguments.insert(arguments.end(), {"--trace", trace});
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_NE(process.output().find("exists and is not a trace of polyrank-run"),
            std::string::npos)
      << process.output();
  EXPECT_EQ(readFile(trace), "notes");
}

} // namespace
} // namespace polyrank::runtime::test
