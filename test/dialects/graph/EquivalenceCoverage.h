// The coverage of the equivalence test: for each op and factor, how often
// splitting, padding and partials were accepted and rejected.

#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "dialects/graph/ShardingRule.h"
#include "gtest/gtest.h"

namespace polyrank::test {

/// The ways in which a combination can treat a factor of an op.
enum Aspect { Split, SubAxis, Padded, PartialSum, PartialMax, PartialMin };
constexpr int numAspects = 6;
/// The number of devices of the largest mesh.
constexpr int64_t numDevices = 4;
inline const char *const aspectNames[numAspects] = {
    "split", "sub-axis", "padded", "sum", "max", "min"};

/// Composite and replicated factors are neither split nor padded.
bool isClosed(graph::FactorKind kind);

/// (op x factor x aspect): how often a combination was accepted and rejected.
/// A partial counts for a factor that is split at the same time.
class Coverage : public testing::Environment {
public:
  struct Row {
    std::string op, factor;
    graph::FactorKind kind;
    std::string passes;      // the kinds of partial that some operand passes on
    bool isWholeDim = false; // in all dims that have it
    int64_t size = 1;
    int64_t majorSize = 1; // of the factors before it in a dim
    /// The kind of partial of results that lack the factor, if it is split.
    std::optional<sharding::ReductionKind> makesPartial;
    std::array<size_t, numAspects> accepted{}, rejected{};
  };

  std::vector<Row> &getRows(const char *op, const graph::ShardingRule &rule);
  /// Prints the table, and fails if a cell is missing without a reason.
  void TearDown() override;

private:
  /// A deque, so that the addresses of rows stay valid.
  std::deque<std::vector<Row>> ops;
  std::vector<std::string> missing;
};

} // namespace polyrank::test
