// Traces are read back and compared with their plan; invalid ones are refused.

#include "runtime/report/TraceFile.h"

#include "runtime/exec/Trace.h"
#include "runtime/report/Comparison.h"
#include "test/runtime/PlanBuilder.h"

#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

constexpr int64_t kernel = 1000, collective = 3000; // nanoseconds

/// Two ranks and microbatches; the gradient's reduction is in flight over two
/// commands of the update.
LoadedPlan startedPlan() {
  LinearModel model;
  model.data = 2, model.microbatches = 2, model.batch = 4;
  plan::PlanT plan = linearPlan(model);
  startEarly(plan, updateSegment, 0, 3, 1);
  for (auto &segment : plan.programs[0]->segments)
    for (auto &command : segment->commands)
      command->picoseconds =
          1000 * (command->body.AsCollective() ? collective : kernel);
  return load(plan);
}

class TraceFileTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string path = directory / "trace.json";
  LoadedPlan plan = startedPlan();

  /// Two steps of both ranks, in which each command takes `time` and every rank
  /// waits for as long until all have started a collective.
  std::string trace(int64_t time = kernel) {
    std::string text;
    for (int64_t rank = 0; rank < 2; ++rank) {
      Trace trace(plan, rank);
      if (rank == 0)
        text += trace.prologue(true, {"data=20:2"});
      int64_t now = 1'000'000;
      for (uint64_t step = 1; step <= 2; ++step) {
        trace.beginStep(step);
        const plan::Program &program = plan.program();
        for (uint32_t a = 0; a < program.schedule()->size(); ++a) {
          const auto &commands =
              *program.segments()
                   ->Get(program.schedule()->Get(a)->segment())
                   ->commands();
          for (uint32_t c = 0; c < commands.size(); ++c) {
            const plan::Command &command = *commands.Get(c);
            const plan::Collective *one = command.body_as_Collective();
            bool ends = command.body_as_Wait() || (one && !one->request());
            int64_t end = now + (ends ? 2 * time : time);
            Completion completion{now + time, int32_t(1 - rank), end, 0};
            trace.add(a, c, now, end, ends ? &completion : nullptr);
            now = end;
          }
        }
      }
      EXPECT_TRUE(trace.write([&](std::string_view piece) {
        text += piece;
        return Result<void>();
      }));
    }
    return text + std::string(Trace::epilogue());
  }

  Result<TraceFile> read(const std::string &text) {
    writeFile(path, text.data(), text.size());
    return readTrace(path, plan);
  }
  void expectRefused(const std::function<void(json &)> &change,
                     const std::string &message) {
    json file = json::parse(trace());
    change(file);
    // "otherData" comes before "traceEvents" in alphabetical order, too.
    Result<TraceFile> read = this->read(file.dump());
    ASSERT_FALSE(read) << message;
    EXPECT_NE(read.error().message.find(message), std::string::npos)
        << read.error().message;
    EXPECT_NE(read.error().message.find(path), std::string::npos);
  }

  /// The first event of rank 1 of that category, `skip` ones later.
  static json::iterator find(json &file, const std::string &category,
                             int skip = 0) {
    json &events = file["traceEvents"];
    for (auto event = events.begin(); event != events.end(); ++event)
      if ((*event)["pid"] == 1 && event->value("cat", "") == category &&
          skip-- == 0)
        return event;
    throw std::runtime_error("no event " + category);
  }
};

TEST_F(TraceFileTest, ATraceIsReadAsItWasRecorded) {
  Result<TraceFile> read = this->read(trace());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->isRehearsed);
  EXPECT_EQ(read->links, std::vector<std::string>{"data=20:2"});
  EXPECT_EQ(read->firstStep, 1u);
  ASSERT_EQ(read->steps.size(), 2u);
  size_t commands = 0, flights = 0;
  for (const plan::Action *action : *plan.program().schedule())
    commands +=
        plan.program().segments()->Get(action->segment())->commands()->size();
  for (const auto &ranks : read->steps) {
    ASSERT_EQ(ranks.size(), 2u);
    for (const TracedStep &step : ranks) {
      ASSERT_EQ(step.size(), commands);
      for (const TracedCommand &command : step)
        if (command.flightEnd) {
          ++flights;
          EXPECT_EQ(command.end, command.flightEnd);
          EXPECT_EQ(command.allStarted, command.begin + kernel);
        } else {
          EXPECT_EQ(command.end - command.begin, kernel);
        }
    }
  }
  EXPECT_EQ(flights, 2u * 2 * 2);
}

TEST_F(TraceFileTest, PlannedAndMeasuredStandSideBySide) {
  Result<TraceFile> read = this->read(trace(2 * kernel));
  ASSERT_TRUE(read) << read.error().message;
  StepTimes links = plannedTimesOf(plan);
  Comparison comparison = compare(plan, *read, links);
  EXPECT_EQ(comparison.step, 2u);
  EXPECT_EQ(comparison.ranks, 2u);
  ASSERT_FALSE(comparison.ops.empty());
  double planned = 0;
  for (const OpLine &line : comparison.ops) {
    EXPECT_NEAR(line.time.measured, 2 * line.time.planned, 1e-12);
    EXPECT_NEAR(line.time.planned, 1e-9 * kernel * double(line.count), 1e-12);
    planned += line.time.planned;
  }
  EXPECT_NEAR(comparison.queues[0].busy.planned, planned, 1e-12);
  EXPECT_NEAR(comparison.queues[0].busy.measured, 2 * planned, 1e-12);
  // Two collectives: each rank waits until all have started, and as long again.
  EXPECT_NEAR(comparison.forOthers, 2 * 2e-9 * kernel, 1e-12);
  EXPECT_NEAR(comparison.stood.measured, 2 * 2e-9 * kernel, 1e-12);
  EXPECT_NEAR(comparison.starting, 2e-9 * kernel, 1e-12);
  EXPECT_NEAR(comparison.outside, 0, 1e-12);
  uint64_t collectives = 0, started = 0;
  for (const CollectiveLine &line : comparison.collectives) {
    collectives += line.count, started += line.started;
    EXPECT_NEAR(line.time.measured, 1e-9 * collective * double(line.count),
                1e-12); // what the link takes
  }
  EXPECT_EQ(collectives, 2u);
  EXPECT_EQ(started, 1u);
  json report = toJson(comparison);
  EXPECT_EQ(report["report"], "comparison");
}

// Ranks do the work themselves while they stall: none of it is overlapped.
TEST_F(TraceFileTest, WithoutALinkWhatARankStandsIsWhatACollectiveTakes) {
  Result<TraceFile> read = this->read(trace());
  ASSERT_TRUE(read) << read.error().message;
  StepTimes none = plannedTimesOf(plan);
  for (auto &segment : none[0])
    for (int64_t &time : segment)
      time = 0;
  for (const CollectiveLine &line : compare(plan, *read, none).collectives) {
    EXPECT_NEAR(line.time.measured, line.stood.measured, 1e-12);
    EXPECT_EQ(
        CollectiveLine::hiddenShare(line.time.measured, line.stood.measured),
        0);
  }
}

// Between machines the network moves the data while ranks compute.
TEST_F(TraceFileTest, BetweenMachinesACollectiveTakesItsWayFromTheLastStart) {
  json file = json::parse(trace());
  double alone = 0;   // seconds
  double flights = 0; // microseconds of both ranks in step 2
  for (json &event : file["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "in flight") {
      event["args"]["all started after us"] = 0;
      if (event["args"]["step"] == 2)
        flights += event["dur"].get<double>();
    }
  StepTimes none = plannedTimesOf(plan);
  for (auto &segment : none[0])
    for (int64_t &time : segment)
      time = 0;
  for (int machines : {1, 2}) {
    file["otherData"]["machines"] = machines;
    Result<TraceFile> read = this->read(file.dump());
    ASSERT_TRUE(read) << read.error().message;
    double measured = 0, stood = 0;
    for (const CollectiveLine &line : compare(plan, *read, none).collectives)
      measured += line.time.measured, stood += line.stood.measured;
    if (machines == 1) {
      EXPECT_NEAR(measured, stood, 1e-12);
      alone = stood;
    } else {
      EXPECT_NEAR(measured, 1e-6 * flights / 2, 1e-12);
      EXPECT_NEAR(stood, alone, 1e-12);
      EXPECT_GT(measured, stood); // one was started ahead of its wait
    }
  }
}

TEST_F(TraceFileTest, MeasuredTimesAreTheLeastOfAllStepsButTheFirst) {
  json file = json::parse(trace());
  // The first command is faster in the first step, and slower once in the
  // second.
  find(file, "launch")->at("dur") = 0.25;
  bool isFirst = true;
  for (json &event : file["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "launch" &&
        event["args"]["step"] == 2 && event["args"]["segment"] == "first" &&
        event["args"]["number"] == 0)
      event["dur"] = isFirst ? 0.75 : 0.5, isFirst = false;
  Result<TraceFile> read = this->read(file.dump());
  ASSERT_TRUE(read) << read.error().message;
  StepTimes times = measuredTimesOf(plan, *read);
  EXPECT_EQ(times[0][firstSegment][0], 500'000);
  EXPECT_EQ(times[0][firstSegment][1], 1000 * kernel);
}

TEST_F(TraceFileTest, WhatIsWrongIsNamed) {
  expectRefused([](json &file) { file["otherData"]["plan"] = "00ff"; },
                "is of plan '00ff'");
  expectRefused([](json &file) { file["otherData"]["machines"] = 3; },
                "the plan's 2 ranks cannot be shared out evenly over 3 "
                "machines");
  expectRefused([](json &file) { file["otherData"]["machines"] = 0.5; },
                "does not say on how many machines it was made");
  expectRefused([](json &file) { file.erase("otherData"); },
                "does not say of which plan it is");
  expectRefused([](json &file) { file.erase("traceEvents"); },
                "has no list of \"traceEvents\"");
  expectRefused([](json &file) { file["traceEvents"] = json::object(); },
                "has no list of \"traceEvents\"");
  expectRefused([](json &file) { file = json::array({file}); },
                "has no list of \"traceEvents\"");
  expectRefused([](json &file) { file["traceEvents"] = json::array(); },
                "rank 0 (data=0,tensor=0) has no step");
  expectRefused(
      [](json &file) {
        json deep = 1;
        for (int level = 0; level < 10; ++level)
          deep = json::array({deep});
        file["traceEvents"][0]["args"] = deep;
      },
      "is nested deeper than 8 levels");
  expectRefused([](json &file) { (*find(file, "launch"))["pid"] = 2; },
                "an event has pid 2, and the plan has ranks 0 to 1");
  expectRefused([](json &file) { (*find(file, "launch"))["pid"] = "x"; },
                "an event has pid none");
  expectRefused([](json &file) { (*find(file, "launch"))["dur"] = -1; },
                "rank 1: an event has no ts and dur");
  expectRefused([](json &file) { find(file, "launch")->erase("ts"); },
                "rank 1: an event has no ts and dur");
  expectRefused([](json &file) { (*find(file, "launch"))["ts"] = 1e300; },
                "rank 1: an event has no ts and dur");
  expectRefused([](json &file) { (*find(file, "launch"))["cat"] = "gemm"; },
                "rank 1: step 1 should go on with command 0 of segment 'first' "
                "in microbatch 0, a launch; the next event is command 0");
  for (const char *field : {"number", "microbatch", "step"})
    expectRefused(
        [&](json &file) { (*find(file, "launch"))["args"][field] = 7; },
        "should go on with");
  expectRefused(
      [](json &file) { (*find(file, "launch"))["args"]["segment"] = "next"; },
      "should go on with command");
  expectRefused(
      [](json &file) { file["traceEvents"].erase(find(file, "launch", 1)); },
      "should go on with");
  expectRefused(
      [](json &file) {
        json again = *find(file, "launch", 1);
        file["traceEvents"].insert(find(file, "launch", 1), again);
      },
      "should go on with");
  expectRefused(
      [](json &file) {
        json &begin = (*find(file, "launch", 1))["ts"];
        begin = begin.get<double>() - 0.5;
      },
      "begins before the command in front of it ends");
  expectRefused(
      [](json &file) { file["traceEvents"].erase(find(file, "in flight")); },
      "lacks the flight of the collective that ends with");
  expectRefused(
      [](json &file) {
        json flight = *find(file, "in flight");
        file["traceEvents"].insert(find(file, "in flight"), flight);
      },
      "a flight of a collective follows a command that ends none");
  expectRefused(
      [](json &file) {
        (*find(file, "in flight"))["args"].erase("all started after us");
      },
      "does not say when all had started it");
  // Missing at the end: a command, a step of one rank, a rank.
  auto eraseRank = [](json &file, const std::function<bool(json &)> &is) {
    json kept = json::array();
    for (json &event : file["traceEvents"])
      if (event["pid"] != 1 || event["ph"] != "X" || !is(event))
        kept.push_back(event);
    file["traceEvents"] = kept;
  };
  expectRefused(
      [&](json &file) {
        eraseRank(file, [](json &event) {
          return event["args"].value("step", 2) == 2 &&
                 event["args"].value("segment", "update") == "update";
        });
      },
      "rank 1 (data=1,tensor=0): step 2 has 9 of 14 commands; it lacks");
  expectRefused(
      [&](json &file) {
        eraseRank(file, [](json &event) {
          return event["cat"] == "waiting" || event["args"]["step"] == 2;
        });
      },
      "rank 1 (data=1,tensor=0) has steps 1 to 1, and rank 0 steps 1 to 2");
  expectRefused(
      [&](json &file) { eraseRank(file, [](json &) { return true; }); },
      "rank 1 (data=1,tensor=0) has no step");
}

TEST_F(TraceFileTest, ATraceThatIsCutOffOrGoneIsRefused) {
  std::string text = trace();
  for (size_t length : {text.size() / 2, text.size() - 3, size_t(0)}) {
    Result<TraceFile> torn = read(text.substr(0, length));
    ASSERT_FALSE(torn) << length;
    EXPECT_NE(torn.error().message.find("is no whole JSON file"),
              std::string::npos)
        << torn.error().message;
  }
  EXPECT_FALSE(readTrace(directory / "none.json", plan));
}

} // namespace
} // namespace polyrank::runtime::test
