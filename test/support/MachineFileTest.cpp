// Machine files: what they say, and the line of what is wrong with them.

#include "support/MachineFile.h"

#include <gtest/gtest.h>

using namespace polyrank;

namespace {

const std::string whole = R"(name = "two nodes"

[device]
f32 = 19500
bf16 = {value = 156e3, source = "published: a data sheet"}
bandwidth = 1555.0
memory = 80
source = "measured"

[node]
devices = 8
latency = 3
bandwidth = 230
source = "measured"

[network]
nodes = 2
latency = 10
bandwidth = 25
source = "assumed"
)";

/// `whole` with the first `from` replaced.
std::string with(const std::string &from, const std::string &to) {
  std::string text = whole;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string faultOf(const std::string &text) {
  auto machine = MachineFile::parse(text, "m.toml");
  return machine ? "" : machine.error().message;
}

TEST(MachineFile, SaysWhatIsReachedAndWhereEachNumberIsFrom) {
  auto machine = MachineFile::parse(whole, "m.toml");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "two nodes");
  EXPECT_EQ(machine->f32.value, 19500);
  EXPECT_EQ(machine->f32.source, "measured");
  EXPECT_EQ(machine->bf16->value, 156e3);
  EXPECT_EQ(machine->bf16->source, "published: a data sheet");
  EXPECT_FALSE(machine->f16);
  EXPECT_EQ(machine->bandwidth.value, 1555);
  EXPECT_EQ(machine->memory->value, 80);
  EXPECT_EQ(machine->devices.value, 8);
  EXPECT_EQ(machine->node.latency.value, 3);
  EXPECT_EQ(machine->node.bandwidth.value, 230);
  EXPECT_EQ(machine->nodes.value, 2);
  EXPECT_EQ(machine->network->latency.value, 10);
  EXPECT_EQ(machine->network->bandwidth.value, 25);
  EXPECT_EQ(machine->describe(),
            "machine 'two nodes' (m.toml): f32 19500 GFLOP/s (measured), bf16 "
            "156000 GFLOP/s (published: a data sheet), memory at 1555 GB/s "
            "(measured), of 80 GB (measured), devices "
            "of a node 8 (measured), linked with 3 us (measured), and "
            "230 GB/s (measured), nodes 2 (assumed), linked with 10 us "
            "(assumed), and 25 GB/s (assumed)");
}

TEST(MachineFile, ThatCannotBeMeantIsRefusedWithLineValueAndWhatIsPossible) {
  const std::pair<std::string, const char *> wrongs[] = {
      {with("f32 = 19500", "f32 = 0"),
       "m.toml, line 4: [device] f32 = 0 GFLOP/s; 1e-3 to 1e7 are possible"},
      {with("f32 = 19500", "f32 = -3"), "[device] f32 = -3 GFLOP/s; 1e-3 to"},
      {with("f32 = 19500", "f32 = nan"), "line 4: [device] f32 = nan GFLOP/s"},
      {with("f32 = 19500\n", ""), "line 3: [device] has no 'f32', in GFLOP/s"},
      {with("f32 = 19500", "f32 = true"),
       "line 4: [device] f32 is a number, or {value = .., source = ..}"},
      {with("f32 = 19500", "f32 = \"fast\""),
       "line 4: [device] f32 is a number"},
      {with("f32 = 19500", "f32 = {source = \"measured\"}"),
       "line 4: [device] f32 is a number"},
      {with("f32 = 19500", "f32 = {value = 1, sauce = \"measured\"}"),
       "line 4: [device] f32 has a value and a source, and no 'sauce'"},
      {with("bf16", "bf61"),
       "line 5: [device] has no 'bf61'; it has source, f32, bf16, f16, "
       "bandwidth, memory; nearest: 'bf16'"},
      {with("bandwidth = 1555.0", "bandwidth = 1e9"),
       "line 6: [device] bandwidth = 1000000000 GB/s; 1e-3 to 1e6 are "
       "possible"},
      {with("memory = 80", "memory = -80"),
       "line 7: [device] memory = -80 GB; 1e-6 to 1e6 are possible"},
      {with("source = \"measured\"", "source = \"a friend\""),
       "line 8: the source of [device] is \"measured\", \"assumed\" or "
       "\"published: WHERE\""},
      {with("\"published: a data sheet\"", "\"published: \""),
       "line 5: the source of [device] bf16 is \"measured\""},
      {with("source = \"measured\"\n", ""),
       "line 4: [device] f32 has no source; write one, or one of the section"},
      {with("devices = 8", "devices = 0"),
       "line 11: [node] devices = 0; whole numbers from 1 to 1e6 are possible"},
      {with("devices = 8", "devices = 2.5"), "line 11: [node] devices = 2.5; "},
      {with("bandwidth = 230", "bandwidth = 1e9"),
       "line 13: [node] bandwidth = 1000000000 GB/s; 1e-6 to 1e6 are possible"},
      {with("latency = 10\n", ""),
       "line 16: [network] has no 'latency', in microseconds"},
      {with("[network]", "[netwrok]"),
       "line 16: a machine has no 'netwrok'; it has name, device, node, "
       "network; nearest: 'network'"},
      {with("name = \"two nodes\"", ""),
       "line 1: a machine has no name: write name = \"..\""},
      {with("name = \"two nodes\"", "name = 2"), "line 1: 'name' is a text"},
      {"name = \"x\"\ndevice = 3\n", "line 2: 'device' is a section: [device]"},
      {"name = \"x\"\n", "line 1: a machine has no section [node]"},
      {"[#name]", "m.toml, line 1: the name of a section or key is missing"},
      {"name = ", "m.toml, line 1: "},
  };
  for (auto &[text, message] : wrongs)
    EXPECT_NE(faultOf(text).find(message), std::string::npos)
        << message << "\nin: " << faultOf(text);
  // All wrong lines are named together.
  EXPECT_EQ(faultOf(with("f32 = 19500\nbf16 = {value = 156e3,",
                         "f32 = 0\nbf16 = {value = 0,")),
            "m.toml, line 4: [device] f32 = 0 GFLOP/s; 1e-3 to 1e7 are "
            "possible\nm.toml, line 5: [device] bf16 = 0 GFLOP/s; 1e-3 to 1e7 "
            "are possible");
}

TEST(MachineFile, HasNodesThatTheMeshLiesOnEvenly) {
  auto machine = MachineFile::parse(whole, "m.toml");
  ASSERT_TRUE(machine) << machine.error().message;
  auto check = [&](std::vector<MachineFile::Axis> axes) {
    auto checked = machine->checkMesh(axes);
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({{"data", 2}, {"tensor", 8}}), "");
  EXPECT_EQ(check({{"data", 4}, {"tensor", 4}}), "");
  EXPECT_EQ(check({{"data", 16}}), "");
  EXPECT_EQ(check({{"pipe", 2}, {"data", 4}, {"tensor", 2}}), "");
  // What lies in one node may have any size.
  EXPECT_EQ(check({{"data", 2}, {"tensor", 3}}), "");
  EXPECT_EQ(
      check({{"data", 4}, {"tensor", 8}}),
      "m.toml, line 17: the mesh data=4,tensor=8 has more than the 16 "
      "devices of the machine, 8 in each of 2 nodes; take a smaller mesh, "
      "or more nodes");
  EXPECT_EQ(check({{"data", 4}, {"tensor", 3}}),
            "m.toml, line 11: nodes of 8 devices do not divide the mesh "
            "data=4,tensor=3: axis tensor would begin in one node and end in "
            "another; take sizes of the last axes whose product is 8, or "
            "divides it");
  EXPECT_NE(check({{"data", 3}, {"tensor", 4}}).find("axis data would begin"),
            std::string::npos);
  EXPECT_NE(
      check({{"data", int64_t(1) << 62}, {"tensor", 4}}).find("more than"),
      std::string::npos);
}

TEST(MachineFile, KnowsWhichAxesCrossNodes) {
  auto machine = MachineFile::parse(whole, "m.toml");
  ASSERT_TRUE(machine) << machine.error().message;
  auto crossing = [&](std::vector<MachineFile::Axis> axes) {
    std::vector<bool> all;
    for (size_t i = 0; i < axes.size(); ++i)
      all.push_back(machine->crossesNodes(axes, i));
    return all;
  };
  using Axes = std::vector<bool>;
  EXPECT_EQ(crossing({{"data", 2}, {"tensor", 8}}), (Axes{true, false}));
  EXPECT_EQ(crossing({{"data", 4}, {"tensor", 4}}), (Axes{true, false}));
  EXPECT_EQ(crossing({{"data", 16}}), (Axes{true}));
  EXPECT_EQ(crossing({{"data", 2}, {"tensor", 4}}), (Axes{false, false}));
  EXPECT_EQ(crossing({{"data", 1}, {"tensor", 16}}), (Axes{false, true}));
}

TEST(MachineFile, WithoutNetworkIsOneNode) {
  std::string text = whole.substr(0, whole.find("[network]"));
  auto machine = MachineFile::parse(text, "m.toml");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_FALSE(machine->network);
  std::vector<MachineFile::Axis> axes{{"data", 16}};
  auto checked = machine->checkMesh(axes);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find(
                "m.toml, line 11: the mesh data=16 has more than the 8 devices "
                "of the machine, 8 in each of 1 node;"),
            std::string::npos)
      << checked.error().message;
}

} // namespace
