// propagate-layouts: from constraints to a layout of every tensor of a
// function.

#include "compiler/sharding/Passes.h"
#include "compiler/sharding/WriteLayouts.h"
#include "compiler/stages/StageFlow.h"
#include "dialects/sharding/Constraint.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

namespace polyrank::sharding {
#define GEN_PASS_DEF_PROPAGATELAYOUTS
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

/// The mesh of the module, or else of some constraint.
static sharding::MeshAttr findMesh(func::FuncOp function) {
  if (auto module = function->getParentOfType<ModuleOp>())
    if (sharding::MeshAttr mesh = sharding::getMesh(module))
      return mesh;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto constraint = sharding::getConstraint(function, i))
      return constraint.getLayout().getMesh();
  sharding::MeshAttr mesh;
  function.walk([&](Operation *op) {
    if (auto constraint = sharding::getConstraint(op))
      mesh = constraint.getLayout().getMesh();
  });
  return mesh;
}

static std::string toString(const Objective &objective) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto [level, count] : llvm::enumerate(objective.violations))
    if (count)
      out << count << " violations at level " << level << ", ";
  out << objective.bytes << " bytes sent and " << objective.flops << " FLOPs";
  return text;
}

/// " (stage 0: .., stage 1: ..)": the objective of each pipeline stage; empty
/// without stages.
static std::string describeStages(const Propagated &propagated,
                                  func::FuncOp function) {
  auto stages = pipeline::getStages(function->getParentOfType<ModuleOp>());
  if (!stages)
    return "";
  const SideTable &table = propagated.table;
  stages::StageFlow flow(function);
  ReshardCosts costs(table.mesh);
  std::vector<Objective> ofNodes =
      Solver(table, propagated.candidates, costs)
          .evaluateNodes(propagated.solution.candidates);
  std::vector<Objective> ofStages(stages->getNumStages());
  for (auto [node, objective] : llvm::zip_equal(table.nodes, ofNodes)) {
    std::optional<int64_t> stage;
    if (!node.results.empty())
      stage = flow.getStage(table.values[node.results.front()].value);
    else if (!node.operands.empty())
      stage = flow.getStage(table.values[node.operands.front()].value);
    if (stage)
      ofStages[*stage] += objective;
  }
  std::string text;
  for (auto [stage, objective] : llvm::enumerate(ofStages))
    text += (text.empty() ? " (stage " : ", stage ") + std::to_string(stage) +
            ": " + std::to_string(objective.bytes) + " and " +
            std::to_string(objective.flops);
  return text + ")";
}

/// How far the objective is above its bound, in the first part that differs.
static std::string gap(const Objective &objective, const Objective &bound) {
  for (int i = 0; i < maxLevels; ++i)
    if (objective.violations[i] != bound.violations[i])
      return std::to_string(objective.violations[i] - bound.violations[i]) +
             " violations";
  auto percent = [](int64_t value, int64_t least) {
    return llvm::formatv("{0:F2}%", 100.0 * (value - least) / value).str();
  };
  if (objective.bytes != bound.bytes)
    return percent(objective.bytes, bound.bytes) + " of bytes";
  if (objective.flops != bound.flops)
    return percent(objective.flops, bound.flops) + " of flops";
  return "0";
}

namespace {
struct PropagateLayouts
    : sharding::impl::PropagateLayoutsBase<PropagateLayouts> {
  using PropagateLayoutsBase::PropagateLayoutsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isDeclaration())
      return;
    sharding::MeshAttr mesh = findMesh(function);
    if (!mesh) {
      function.emitError("has neither constraints nor a mesh (sharding.mesh of "
                         "the module)");
      return signalPassFailure();
    }
    FailureOr<SideTable> table = readFunction(mesh, function);
    if (failed(table))
      return signalPassFailure();
    FailureOr<Propagated> propagated = solveLayouts(*std::move(table));
    if (failed(propagated))
      return signalPassFailure();
    std::string stages = report ? describeStages(*propagated, function) : "";
    if (failed(writeLayouts(*propagated)))
      return signalPassFailure();
    const Solution &solution = propagated->solution;

    Operation *terminator = function.getBody().front().getTerminator();
    function.setType(FunctionType::get(&getContext(),
                                       function.getBody().getArgumentTypes(),
                                       terminator->getOperandTypes()));
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      sharding::setConstraint(function, i, {});
    function.walk([](Operation *op) { sharding::setConstraint(op, {}); });

    auto cost = [&](const Objective &objective) {
      return CostAttr::get(&getContext(), objective.violations, objective.bytes,
                           objective.flops);
    };
    setObjective(function,
                 ObjectiveAttr::get(&getContext(), cost(solution.objective),
                                    cost(solution.bound)));
    if (report)
      function.emitRemark("layouts: ")
          << toString(solution.objective)
          << (stages.empty() ? " by each device a step"
                             : " by a device of each stage together a step")
          << stages << "; "
          << (gap(solution.objective, solution.bound) == "0"
                  ? "nothing less is possible (gap 0)"
                  : "at least " + toString(solution.bound) +
                        " are needed (gap " +
                        gap(solution.objective, solution.bound) + ")");
  }
};
} // namespace
