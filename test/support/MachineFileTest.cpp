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

TEST(MachineFile, IsWrittenAsItIsRead) {
  std::string more = with("memory = 80", R"(memory = 80
launch = 5
host = {value = 0.0625, source = "assumed"})");
  more += R"(algorithms = ["ring", "hierarchical"]
reached = [[0.001, 0.25], [64, 1]]

[product]
tile = 128
half_tiles = 1.5
half_depth = 64
source = "measured")";
  for (const std::string &text : {whole, more}) {
    auto machine = MachineFile::parse(text, "m.toml");
    ASSERT_TRUE(machine) << machine.error().message;
    std::string written = machine->toText();
    auto again = MachineFile::parse(written, "m.toml");
    ASSERT_TRUE(again) << again.error().message << written;
    EXPECT_EQ(again->describe(), machine->describe());
    EXPECT_EQ(again->getLevels(), machine->getLevels());
    EXPECT_EQ(again->toText(), written);
  }
}

TEST(MachineFile, WithAnyNameIsWrittenSoThatItIsReadAgain) {
  MachineFile machine = *MachineFile::parse(whole, "m.toml");
  for (const char *name : {"a \"b\" c", "back\\slash", "tab\tand \x01", ""}) {
    machine.name = name;
    auto again = MachineFile::parse(machine.toText(), "m.toml");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->name, name);
  }
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
       "bandwidth, memory, launch, host; nearest: 'bf16'"},
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
       "line 16: a machine has no 'netwrok'; it has name, device, product, "
       "node, network; nearest: 'network'"},
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

/// `whole` with what a machine may say beside it.
const std::string rich = R"(name = "two nodes"

[device]
f32 = 19500
bandwidth = 1555.0
launch = 4
host = {value = 7.5, source = "assumed"}
source = "measured"

[product]
tile = 128
half_tiles = 20
half_depth = 100
source = "measured"

[node]
devices = 8
latency = 3
bandwidth = 230
reached = [[1, 0.25], [16, 1]]
algorithms = ["ring", "tree"]
source = "measured"

[network]
nodes = 2
latency = 10
bandwidth = 25
algorithms = ["ring", "hierarchical"]
source = "assumed"
)";

std::string richWith(const std::string &from, const std::string &to) {
  std::string text = rich;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MachineFile, SaysWhatLaunchesProductsAndMessagesTake) {
  auto machine = MachineFile::parse(rich, "m.toml");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->launch->value, 4);
  EXPECT_EQ(machine->launch->source, "measured");
  EXPECT_EQ(machine->host->value, 7.5);
  EXPECT_EQ(machine->host->source, "assumed");
  EXPECT_EQ(machine->products->tile->value, 128);
  EXPECT_EQ(machine->products->halfTiles->value, 20);
  EXPECT_EQ(machine->products->halfDepth->value, 100);
  auto levels = machine->getLevels();
  ASSERT_TRUE(levels);
  using Algorithm = CollectiveAlgorithm;
  EXPECT_EQ(levels->devices, 8);
  EXPECT_EQ(levels->node, (LinkLevel{LinkTime::of(3, 230),
                                     {{1e6, 0.25}, {16e6, 1}},
                                     {Algorithm::Ring, Algorithm::Tree}}));
  EXPECT_EQ(*levels->network,
            (LinkLevel{LinkTime::of(10, 25), {}, {Algorithm::Ring}}));
  EXPECT_TRUE(levels->isHierarchical);
  EXPECT_EQ(machine->describe(),
            "machine 'two nodes' (m.toml): f32 19500 GFLOP/s (measured), "
            "memory at 1555 GB/s (measured), launches of 4 us (measured), "
            "commands issued in 7.5 us (assumed), products in tiles of 128 "
            "(measured), half of the rate at tiles 20 (measured), and at a "
            "depth of 100 (measured), devices of a node 8 (measured), linked "
            "with 3 us (measured), and 230 GB/s (measured) by ring, tree, "
            "nodes 2 (assumed), linked with 10 us (assumed), and 25 GB/s "
            "(assumed) by ring, hierarchical");
  // Without algorithms and sizes of messages an axis has one link.
  auto plain = MachineFile::parse(whole, "m.toml");
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->getLevels());
}

TEST(MachineFile, ThatLaunchesOrReducesInNoPossibleWayIsRefused) {
  const char *reached =
      "line 20: [node] reached lists the sizes of messages in MB, ascending "
      "from more than 0 to 1e6, each with the share of the bandwidth that they "
      "reach, 1e-6 to 1: [[1, 0.3], [64, 1]]";
  const std::pair<std::string, std::string> wrongs[] = {
      {richWith("launch = 4", "launch = -4"),
       "m.toml, line 6: [device] launch = -4 microseconds; 0 to 1e6 are "
       "possible"},
      {richWith("launch = 4", "launch = 1e9"),
       "line 6: [device] launch = 1000000000 microseconds; 0 to 1e6"},
      {richWith("value = 7.5, ", ""),
       "line 7: [device] host is a number, or {value = .., source = ..}"},
      {richWith("tile = 128", "tile = 0"),
       "line 11: [product] tile = 0; whole numbers from 1 to 4096 are "
       "possible"},
      {richWith("half_tiles = 20", "half_tiles = -1"),
       "line 12: [product] half_tiles = -1; 0 to 1e6 are possible"},
      {richWith("half_depth = 100", "half_dept = 100"),
       "line 13: [product] has no 'half_dept'; it has source, tile, "
       "half_tiles, "
       "half_depth; nearest: 'half_depth'"},
      {richWith("[product]", "[produkt]"),
       "line 10: a machine has no 'produkt'; it has name, device, product, "
       "node, network; nearest: 'product'"},
      {richWith("[[1, 0.25], [16, 1]]", "[[1, 0.25], [1, 1]]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "[[1, 0], [16, 1]]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "[[1, 1.5]]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "[[0, 1]]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "[[1, 0.25, 3]]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "[]"), reached},
      {richWith("[[1, 0.25], [16, 1]]", "0.5"), reached},
      {richWith("\"ring\", \"tree\"", "\"rings\""),
       "line 21: [node] algorithms lists some of halving, ring, tree, and not "
       "'rings'; nearest: 'ring'"},
      {richWith("\"ring\", \"tree\"", "\"hierarchical\""),
       "line 21: [node] algorithms lists some of halving, ring, tree, and not "
       "'hierarchical'"},
      {richWith("\"ring\", \"tree\"", "\"ring\", \"ring\""),
       "and not 'ring' twice"},
      {richWith("\"ring\", \"tree\"", "3"), "and not no text"},
      {richWith("[\"ring\", \"tree\"]", "[]"), "and not none"},
      {richWith("\"ring\", \"hierarchical\"", "\"hierarchical\""),
       "line 28: [network] algorithms lists some of halving, ring, tree, "
       "hierarchical, and not none by which nodes reduce what theirs have "
       "reduced"},
  };
  for (auto &[text, message] : wrongs)
    EXPECT_NE(faultOf(text).find(message), std::string::npos)
        << message << "\nin: " << faultOf(text);
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
