// Each op says in what it computes, and docs/precision.md says the same.

#include "dialects/graph/Precision.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;

namespace {

using Names = std::set<std::string>;

/// The ops of the dialect, by the trait that they have. An op has one of them.
std::map<std::string, Names> namesByTrait() {
  MLIRContext context;
  context.loadDialect<graph::GraphDialect>();
  std::map<std::string, Names> names;
  for (RegisteredOperationName op :
       context.getRegisteredOperationsByDialect("graph")) {
    std::string name = op.stripDialect().str();
    bool low = op.hasTrait<graph::ComputesLow>(),
         wide = op.hasTrait<graph::ComputesWide>(),
         widest = op.hasTrait<graph::ComputesWidest>();
    bool isComputed = op.hasInterface<graph::GraphOp>();
    EXPECT_EQ(low + wide + widest, isComputed) << name;
    if (isComputed)
      names[low    ? "bf16 or fp16"
            : wide ? "f32"
                   : "the widest type of its operands"]
          .insert(name);
  }
  return names;
}

/// The table of the page: the names in the second cell of each row, by the
/// first.
std::map<std::string, Names> namesOnPage() {
  std::ifstream page(POLYRANK_DOCS "/precision.md");
  std::map<std::string, Names> names;
  std::string line;
  while (std::getline(page, line) && line != "| computes in | ops |") {
  }
  std::getline(page, line); // |---|---|
  while (std::getline(page, line) && !line.empty()) {
    std::string kind = line.substr(2, line.find(" | ") - 2), part;
    std::istringstream cell(line.substr(line.find(" | ")));
    for (bool isName = false; std::getline(cell, part, '`'); isName = !isName)
      if (isName)
        names[kind].insert(part);
  }
  return names;
}

TEST(PrecisionTest, ThePageNamesEachOpWhereItsTraitPutsIt) {
  EXPECT_EQ(namesOnPage(), namesByTrait());
}

} // namespace
