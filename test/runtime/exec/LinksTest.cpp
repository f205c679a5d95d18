// The option --link, and the link of a group of ranks.

#include "runtime/exec/Links.h"
#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// A mesh of data=2 and tensor=4, whose axes are groups 0 (data) and 1 (both),
/// and here 2 (tensor) and 3 (one rank).
LoadedPlan meshPlan() {
  LinearModel model;
  model.data = 2, model.tensor = 4;
  plan::PlanT plan = linearPlan(model);
  for (auto axes : {plan::AxisRef(1, 2, 2), plan::AxisRef(1, 1, 1)}) {
    plan.programs[0]->groups.push_back(std::make_unique<plan::AxisListT>());
    plan.programs[0]->groups.back()->axes = {axes};
  }
  return load(plan);
}

TEST(Links, AGroupHasTheSlowestOfItsAxesLinks) {
  LoadedPlan plan = meshPlan();
  Mesh mesh(*plan.plan);
  auto of = [&](const std::vector<std::string> &given, uint32_t group) {
    auto links = Links::parse(mesh, given);
    EXPECT_TRUE(links) << links.error().message;
    auto link = links->of(plan.program().groups()->Get(group)->axes());
    return link ? std::pair(link->latency, link->perByte)
                : std::pair(-1.0, -1.0);
  };
  using Pair = std::pair<double, double>;
  EXPECT_EQ(of({}, 0), Pair(-1, -1));
  EXPECT_EQ(of({"data=20:2"}, 0), Pair(20'000'000, 500));
  EXPECT_EQ(of({"data=20:2"}, 1), Pair(20'000'000, 500));
  EXPECT_EQ(of({"data=20:2"}, 2), Pair(-1, -1));
  EXPECT_EQ(of({"tensor=0.5:1e4"}, 2), Pair(500'000, 0.1));
  EXPECT_EQ(of({"tensor=0.5:10"}, 3), Pair(-1, -1));
  EXPECT_EQ(of({"data=20:10", "tensor=1:2"}, 1), Pair(20'000'000, 500));
  EXPECT_EQ(of({"data=20:1", "tensor=1:2"}, 1), Pair(20'000'000, 1000));
  EXPECT_EQ(of({"data=1:1", "data=20:2"}, 0), Pair(20'000'000, 500));
}

TEST(Links, ThatMakeNoSenseAreRefusedByName) {
  LoadedPlan plan = meshPlan();
  Mesh mesh(*plan.plan);
  const std::pair<const char *, const char *> wrongs[] = {
      {"dat=20:2", "link 'dat=20:2': the mesh has no axis 'dat'; it has data, "
                   "tensor; nearest: 'data'"},
      {"data", "link 'data' is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=20", "is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=:2", "is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=20:", "is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=20us:2", "is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=20:2:3", "is not AXIS=MICROSECONDS:GB_PER_S"},
      {"data=-1:2", "from 0 to 1e6 microseconds"},
      {"data=1000001:2", "from 0 to 1e6 microseconds"},
      {"data=nan:2", "from 0 to 1e6 microseconds"},
      {"data=20:0", "from 1e-6 to 1e6 GB/s"},
      {"data=20:1000001", "from 1e-6 to 1e6 GB/s"},
  };
  for (auto &[text, message] : wrongs) {
    std::vector<std::string> given{text};
    auto links = Links::parse(mesh, given);
    ASSERT_FALSE(links) << text;
    EXPECT_NE(links.error().message.find(message), std::string::npos)
        << links.error().message;
  }
}

TEST(Links, SayThatTheyAreInForce) {
  LoadedPlan plan = meshPlan();
  Mesh mesh(*plan.plan);
  std::vector<std::string> given{"data=20:2"};
  EXPECT_EQ(Links::parse(mesh, given)->describe(),
            "--link data=20:2: collectives over data take at least 20 us a "
            "round and the time that 2 GB/s give");
  EXPECT_EQ(Links().describe(), "");
}

} // namespace
} // namespace polyrank::runtime::test
