// print-sharding-rules: each op's rule as an attribute.

#include "compiler/evaluate/Passes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"

namespace polyrank::evaluate {
#define GEN_PASS_DEF_PRINTSHARDINGRULESPASS
#include "compiler/evaluate/Passes.h.inc"
} // namespace polyrank::evaluate

using namespace mlir;
using namespace polyrank;

namespace {
struct PrintShardingRules
    : evaluate::impl::PrintShardingRulesPassBase<PrintShardingRules> {
  void runOnOperation() override {
    getOperation()->walk([](graph::GraphOp op) {
      graph::setPrintedRule(op, op.getShardingRule().toString());
    });
  }
};
} // namespace
