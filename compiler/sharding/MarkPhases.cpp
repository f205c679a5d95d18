// mark-phases: marks each op with the part of the step that it belongs to.

#include "compiler/sharding/Passes.h"
#include "dialects/graph/Phase.h"

using namespace mlir;
using namespace polyrank;

namespace polyrank::sharding {
#define GEN_PASS_DEF_MARKPHASES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {
struct MarkPhases : sharding::impl::MarkPhasesBase<MarkPhases> {
  using MarkPhasesBase::MarkPhasesBase;

  void runOnOperation() override {
    if (!getOperation().isDeclaration())
      graph::markPhases(getOperation());
  }
};
} // namespace
