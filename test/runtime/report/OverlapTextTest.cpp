// Programs that are alike share a line.

#include "runtime/report/OverlapText.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// A pipeline of programs that compute for a millisecond each, the last for
/// two, and send to the next.
PlanTimeline pipeline(int programs) {
  constexpr int64_t millisecond = 1'000'000'000;
  PlanTimeline timeline;
  timeline.makespan = 4 * millisecond, timeline.lowerBound = 3 * millisecond;
  for (int i = 0; i < programs; ++i) {
    StepTimeline &program = timeline.programs.emplace_back();
    program.place = "pipe=" + std::to_string(i);
    program.computation = (i + 1 < programs ? 1 : 2) * millisecond;
    program.queues = {"compute"};
    program.busy = {program.computation};
    std::string link =
        "pipe " + std::to_string(i) + " to " + std::to_string(i + 1);
    int64_t hidden = i % 2 ? millisecond : millisecond / 2;
    if (i + 1 < programs)
      program.overlap.push_back(
          {"send", link, 4, 0, 1024, millisecond, hidden});
  }
  return timeline;
}

TEST(OverlapText, ProgramsThatAreAlikeShareALine) {
  EXPECT_EQ(overlapText(pipeline(126)),
            "schedule: a step takes 4.000 ms as planned, at least 3.000\n"
            "at pipe=0 to 124:  1.000 ms of computation, 0.000 ms of "
            "communication, 3.000 ms idle: a bubble of 75.0 %\n"
            "  kind            axes             count  started       sent"
            "         ms  hidden\n"
            // 63 of 125 hide a half.
            "  send            pipe                 4        0    1.0 KiB"
            "      1.000     75%\n"
            "at pipe=125:  2.000 ms of computation, 0.000 ms of communication, "
            "2.000 ms idle: a bubble of 50.0 %\n");
}

TEST(OverlapText, OneThatIsAloneNamesBothEndsOfItsLinks) {
  std::string text = overlapText(pipeline(2));
  EXPECT_NE(text.find("at pipe=0:"), std::string::npos) << text;
  EXPECT_NE(text.find("pipe 0 to 1"), std::string::npos) << text;
  EXPECT_NE(text.find("  0       compute   "), std::string::npos) << text;
}

} // namespace
} // namespace polyrank::runtime::test
