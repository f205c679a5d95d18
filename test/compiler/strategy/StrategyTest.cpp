// Strategies: read from options, printed, checked, and moved to another mesh.

#include "compiler/strategy/Strategy.h"

#include "dialects/sharding/Sharding.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::strategy;

namespace {

using Texts = std::vector<std::string>;

/// Sets options; returns what is wrong with the first that is wrong.
std::string set(Strategy &strategy,
                std::vector<std::pair<std::string, Texts>> values) {
  constexpr bool isForward = false;
  for (const auto &[name, texts] : values)
    for (const OptionGroup &group : strategy.options(isForward))
      for (const OptionRow &row : group.rows)
        if (row.longName() == name)
          if (std::string wrong = setField(row, texts); !wrong.empty())
            return wrong;
  return "";
}

Strategy make(const char *mesh, Texts shards = {}) {
  Strategy strategy;
  EXPECT_EQ(set(strategy, {{"--mesh", {mesh}}, {"--shard", shards}}), "");
  return strategy;
}

TEST(Strategy, PrintsTheOptionsThatMakeIt) {
  EXPECT_EQ(Strategy().toArguments(), Texts());
  EXPECT_EQ(Strategy().toFile(), "");
  Strategy strategy;
  EXPECT_EQ(set(strategy, {{"--mesh", {"data=2, pipe=4"}},
                           {"--shard", {"a=[-,data]", "say \"b\"=[data]"}},
                           {"--microbatches", {"8"}},
                           {"--chunks", {"2"}},
                           {"--recompute-gathers", {"true"}},
                           {"--zero", {"0"}},
                           {"--overlap", {"off"}}}),
            "");
  EXPECT_EQ(
      strategy.toArguments(),
      (Texts{"--mesh", "data=2,pipe=4", "--shard", "a=[-,data]", "--shard",
             "say \"b\"=[data]", "--microbatches", "8", "--recompute-gathers",
             "--chunks", "2", "--zero", "0", "--overlap", "off"}));
  EXPECT_EQ(strategy.toFile(), "mesh = \"data=2,pipe=4\"\n"
                               "shard = [\"a=[-,data]\", \"say \\\"b\\\"=["
                               "data]\"]\n"
                               "microbatches = \"8\"\n"
                               "recompute-gathers = true\n"
                               "chunks = \"2\"\n"
                               "zero = \"0\"\n"
                               "overlap = \"off\"\n");
}

TEST(Strategy, AMeshIsAxesWithSizes) {
  Strategy strategy;
  for (auto [text, message] :
       {std::pair("data", "'data' is not AXIS=SIZE, as in data=2,tensor=4"),
        {"data=x", "'data=x' is not AXIS=SIZE, as in data=2,tensor=4"},
        {"data=0", "axis 'data' has size 0; sizes are at least 1"},
        {"da-ta=2", "axis 'da-ta' has other characters than letters, digits "
                    "and _"},
        {"data=2,data=2", "axis 'data' is given twice"},
        {"data=1024,tensor=1025", "more than 1048576 ranks"}})
    EXPECT_EQ(set(strategy, {{"--mesh", {text}}}), message) << text;
  EXPECT_EQ(toString(make("data=2,tensor=3").mesh), "data=2,tensor=3");
}

TEST(Strategy, ChecksItself) {
  MLIRContext context;
  context.loadDialect<sharding::ShardingDialect>();
  auto wrong = [&](std::vector<std::pair<std::string, Texts>> values) {
    Strategy strategy;
    EXPECT_EQ(set(strategy, values), "");
    Result<void> checked = strategy.check(context);
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(wrong({}), "");
  EXPECT_EQ(wrong({{"--mesh", {"data=2"}}, {"--batch-axes", {"dta"}}}),
            "--batch-axes: the mesh has no axis 'dta'; it has data; nearest: "
            "'data'");
  EXPECT_EQ(wrong({{"--mesh", {"data=2"}}, {"--pipe-axis", {"depth"}}}),
            "--pipe-axis: the mesh has no axis 'depth'; it has data");
  EXPECT_TRUE(wrong({{"--chunks", {"2"}}})
                  .starts_with("--chunks: the mesh has "
                               "no axis"));
  EXPECT_TRUE(wrong({{"--bucket-mb", {"all-to-all=5"}}})
                  .starts_with("--bucket-mb: 'all-to-all' has no buckets"));
}

TEST(Strategy, OnAnotherMeshLosesTheConstraintsOfItsAxes) {
  Strategy strategy = make("data=2,tensor=2,cut=2",
                           {"a=[-,tensor]", "b=[data+cut,-]", "c=[data]"});
  EXPECT_TRUE(strategy.constrains("cut"));
  EXPECT_FALSE(strategy.constrains("cu"));
  Strategy moved = strategy.on({{"data", 2}, {"tensor", 4}});
  EXPECT_EQ(moved.shards, (Texts{"a=[-,tensor]", "c=[data]"}));
  EXPECT_EQ(toString(moved.mesh), "data=2,tensor=4");
  EXPECT_FALSE(moved.constrains("cut"));
}

TEST(Strategy, TheBatchIsSplitByTheAxesThatAreGivenOrByTwo) {
  Strategy strategy = make("data=2,rows=2");
  EXPECT_TRUE(strategy.splitsBatch("data"));
  EXPECT_FALSE(strategy.splitsBatch("rows"));
  strategy.batchAxes = "rows";
  EXPECT_TRUE(strategy.splitsBatch("rows"));
  EXPECT_FALSE(strategy.splitsBatch("data"));
}

} // namespace
