// The events of a trace of commands with given times.

#include "runtime/exec/Trace.h"
#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

/// Records commands of rank 0 of two in `updateSegment`; times in nanoseconds.
class Recorded {
public:
  explicit Recorded(const plan::PlanT &plan) : loaded(load(plan)) {
    trace.emplace(loaded, 0);
    const auto &schedule = *loaded.program().schedule();
    for (uint32_t a = 0; a < schedule.size(); ++a)
      if (schedule.Get(a)->segment() == updateSegment)
        action = a;
  }
  void step(uint64_t number) { trace->beginStep(number); }
  void add(uint32_t command, int64_t begin, int64_t end) {
    trace->add(action, command, begin, end, nullptr);
  }
  void add(uint32_t command, int64_t begin, int64_t end,
           const Completion &completion) {
    trace->add(action, command, begin, end, &completion);
  }
  /// The events of a category, in the order of the file.
  std::vector<json> events(const std::string &category) const {
    std::string text = trace->prologue(/*rehearsed=*/false, /*links=*/{});
    EXPECT_TRUE(trace->write([&](std::string_view piece) -> Result<void> {
      text += piece;
      return {};
    }));
    text += Trace::epilogue();
    json parsed = json::parse(text);
    std::vector<json> found;
    for (const json &event : parsed["traceEvents"])
      if (event.value("cat", "") == category)
        found.push_back(event);
    return found;
  }

private:
  LoadedPlan loaded;
  std::optional<Trace> trace;
  uint32_t action = 0;
};

plan::PlanT twoRanks() {
  LinearModel model;
  model.data = 2;
  plan::PlanT plan = linearPlan(model);
  // The gradient's and the loss's reduction are of one group.
  plan.programs[0]
      ->segments[updateSegment]
      ->commands[2]
      ->body.AsCollective()
      ->group = 0;
  assignQueues(plan);
  return plan;
}

// 0 starts the gradient's, 2 the loss's; 3 waits for that one, 4 for this.
plan::PlanT twoInFlight() {
  plan::PlanT plan = twoRanks();
  startEarly(plan, updateSegment, 0, 3, 2);
  startEarly(plan, updateSegment, 2, 3, 1);
  return plan;
}

TEST(Trace, ACollectiveInFlightLastsFromItsStartOnATrackThatIsFree) {
  Recorded recorded(twoInFlight());
  for (int64_t step : {1, 2}) {
    int64_t t = 1'000'000 * step;
    recorded.step(step);
    recorded.add(0, t, t + 1000);
    recorded.add(2, t + 3000, t + 4000);
    recorded.add(3, t + 4500, t + 8000, {t + 5000, 1, t + 7000, 1});
    recorded.add(4, t + 8000, t + 9500, {t + 2000, 1, t + 9000, 0});
  }
  std::vector<json> flights = recorded.events("in flight");
  ASSERT_EQ(flights.size(), 4u);
  for (int step : {0, 1}) {
    const json &loss = flights[2 * step], &gradient = flights[2 * step + 1];
    double t = 1000 * (step + 1);
    EXPECT_EQ(loss["ts"], t + 3);
    EXPECT_EQ(loss["dur"], 4);
    EXPECT_EQ(gradient["ts"], t);
    EXPECT_EQ(gradient["dur"], 9);
    EXPECT_NE(gradient["tid"], loss["tid"]);
    // Flights that are over leave their tracks to those of the next step.
    EXPECT_EQ(loss["tid"], flights[0]["tid"]);
    EXPECT_EQ(gradient["tid"], flights[1]["tid"]);
    EXPECT_EQ(loss["args"]["last finisher"], 1);
    EXPECT_EQ(gradient["args"]["last finisher"], 0);
    EXPECT_EQ(gradient["args"]["all started after us"], 2);
  }
}

TEST(Trace, ACommandWaitsForAnotherRankAndOnlyUntilThatHasStarted) {
  Recorded recorded(twoRanks());
  recorded.step(1);
  recorded.add(0, 10'000, 15'000, {11'000, 0, 15'000, 0}); // itself the last
  recorded.add(2, 20'000, 25'000, {22'000, 1, 24'000, 1});
  recorded.step(2);
  recorded.add(0, 30'000, 35'000, {29'000, 1, 35'000, 0}); // before
  recorded.add(2, 40'000, 45'000, {46'000, 1, 46'500, 1}); // clocks as read
  std::vector<json> waits = recorded.events("waiting");
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["name"], "waits for rank 1");
  EXPECT_EQ(waits[0]["ts"], 20);
  EXPECT_EQ(waits[0]["dur"], 2);
  EXPECT_EQ(waits[1]["ts"], 40);
  EXPECT_EQ(waits[1]["dur"], 5); // no longer than the command
}

} // namespace
} // namespace polyrank::runtime::test
