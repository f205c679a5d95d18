// Propagation on random programs: the solution against every assignment, the
// same solution whatever the order of ops, and types that every op accepts.

#include "compiler/sharding/Candidates.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/WriteLayouts.h"

#include <random>

#include "dialects/graph/Boundary.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::MeshAttr;

namespace {

class PropagationTest : public testing::Test {
protected:
  PropagationTest() {
    context.loadDialect<sharding::ShardingDialect, graph::GraphDialect,
                        func::FuncDialect>();
  }

  MeshAttr mesh(ArrayRef<std::pair<StringRef, int64_t>> axes) {
    SmallVector<StringAttr> names;
    SmallVector<int64_t> sizes;
    for (auto [name, size] : axes) {
      names.push_back(StringAttr::get(&context, name));
      sizes.push_back(size);
    }
    return MeshAttr::get(&context, names, sizes);
  }

  /// Returns a random program of at most `numOps` ops on matrices, with random
  /// constraints. The order of ops depends on `shuffle`.
  OwningOpRef<ModuleOp> random(unsigned seed, int numOps, MeshAttr mesh,
                               unsigned shuffle = 0);

  MLIRContext context;
};

OwningOpRef<ModuleOp> PropagationTest::random(unsigned seed, int numOps,
                                              MeshAttr mesh, unsigned shuffle) {
  std::mt19937 generator(seed);
  auto pick = [&](int count) { return static_cast<int>(generator() % count); };
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  auto type = RankedTensorType::get({8, 8}, builder.getF32Type());
  int numArguments = 2 + pick(2);
  SmallVector<Type> arguments(numArguments, type);
  auto function = func::FuncOp::create(builder, location, "f",
                                       builder.getFunctionType(arguments, {}));
  Block *block = function.addEntryBlock();
  SmallVector<Value> values(block->getArguments());
  graph::Boundary boundary(function);
  for (int i = 0; i < numArguments; ++i) {
    // Half of the arguments are parameters, and most are constrained.
    std::string name(1, static_cast<char>('a' + i));
    if (pick(2))
      boundary.setArgument(
          i, graph::ParameterAttr::get(FlatSymbolRefAttr::get(&context, name)));
    else
      boundary.setArgument(i,
                           graph::InputAttr::get(builder.getStringAttr(name)));
    SmallVector<SmallVector<AxisRef>> axes(2);
    for (size_t axis = 0; axis < mesh.getAxisNames().size(); ++axis)
      if (int dim = pick(3); dim < 2)
        axes[dim].push_back(mesh.getAxis(axis));
    if (axes[0].empty() && axes[1].empty())
      continue;
    auto layout = LayoutAttr::get(
        mesh, {DimAttr::get(mesh, axes[0]), DimAttr::get(mesh, axes[1])});
    int64_t priority = pick(2);
    bool open[] = {pick(2) == 0, pick(2) == 0};
    sharding::setConstraint(
        function, i,
        sharding::ConstraintAttr::get(&context, layout, open, priority, "", 0));
  }
  builder.setInsertionPointToEnd(block);
  SmallVector<Operation *> ops;
  for (int i = 0; i < numOps; ++i) {
    Value x = values[pick(values.size())], y = values[pick(values.size())];
    Value result;
    switch (pick(6)) {
    case 0:
    case 1: {
      int64_t left = pick(2), right = pick(2);
      result = graph::MatmulOp::create(
          builder, location, x, y, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
          ArrayRef<int64_t>{left}, ArrayRef<int64_t>{right});
      break;
    }
    case 2:
      result = graph::AddOp::create(builder, location, x, y);
      break;
    case 3:
      result = graph::MulOp::create(builder, location, x, y);
      break;
    case 4:
      result = graph::TransposeOp::create(builder, location, x,
                                          ArrayRef<int64_t>{1, 0});
      break;
    case 5:
      result = graph::TanhOp::create(builder, location, x);
      break;
    }
    values.push_back(result);
    ops.push_back(result.getDefiningOp());
  }
  // Parameters are returned unchanged; the last value is the output.
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> roles;
  for (int i = 0; i < numArguments; ++i)
    if (boundary.isKept(i)) {
      results.push_back(values[i]);
      roles.push_back(
          graph::Boundary::asDictionary(graph::NextAttr::get(&context, i)));
    }
  results.push_back(values.back());
  roles.push_back(graph::Boundary::asDictionary(
      graph::OutputAttr::get(builder.getStringAttr("out"))));
  func::ReturnOp::create(builder, location, results);
  function.setType(builder.getFunctionType(
      arguments, SmallVector<Type>(results.size(), type)));
  function.setAllResultAttrs(roles);
  // Moves ops in a random order, each to the earliest possible place.
  std::mt19937 order(shuffle);
  if (shuffle)
    for (size_t round = 0; round < 4 * ops.size(); ++round) {
      Operation *op = ops[order() % ops.size()];
      Operation *previous = op->getPrevNode();
      if (previous && llvm::none_of(op->getOperands(), [&](Value operand) {
            return operand.getDefiningOp() == previous;
          }))
        op->moveBefore(previous);
    }
  return module;
}

func::FuncOp functionOf(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

/// All choices of a function's nodes, before propagation.
struct Choices {
  Choices(MeshAttr mesh, func::FuncOp function)
      : table(readFunction(mesh, function)) {
    if (failed(table))
      return;
    Reach reach = findReach(*table);
    CompositeCosts composites;
    candidates =
        enumerateCandidates(*table, reach, Extents(*table, reach), composites);
  }
  FailureOr<SideTable> table;
  FailureOr<Candidates> candidates;
};

void checkAgainstEveryAssignment(ModuleOp module, MeshAttr mesh,
                                 int64_t &compared) {
  Choices choices(mesh, functionOf(module));
  ASSERT_TRUE(succeeded(choices.candidates));
  ReshardCosts costs(mesh);
  Solver solver(*choices.table, *choices.candidates, costs);
  Solution solution = solver.solve();
  EXPECT_EQ(solution.objective, solution.bound);
  double assignments = 1;
  for (const auto &list : *choices.candidates)
    assignments *= list.size();
  constexpr double most = 20'000;
  if (assignments > most)
    return;
  ++compared;
  std::vector<int> candidates(choices.candidates->size(), 0);
  std::optional<Objective> best;
  while (true) {
    Objective objective = solver.evaluate(candidates);
    if (!best || objective < *best)
      best = objective;
    size_t i = 0;
    for (; i < candidates.size(); ++i) {
      if (++candidates[i] < static_cast<int>((*choices.candidates)[i].size()))
        break;
      candidates[i] = 0;
    }
    if (i == candidates.size())
      break;
  }
  EXPECT_EQ(solution.objective, *best);
}

TEST_F(PropagationTest, NoAssignmentOfARandomProgramIsBetterThanTheSolution) {
  int64_t compared = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    MeshAttr m = seed % 2 ? mesh({{"x", 2}}) : mesh({{"x", 2}, {"y", 2}});
    OwningOpRef<ModuleOp> module = random(seed, 2 + seed % 5, m);
    SCOPED_TRACE(seed);
    checkAgainstEveryAssignment(*module, m, compared);
    if (HasFatalFailure() || HasNonfatalFailure())
      return;
  }
  EXPECT_GE(compared, 120);
}

TEST_F(PropagationTest, EveryOpAcceptsItsTypes) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    MeshAttr m =
        seed % 2 ? mesh({{"x", 2}, {"y", 4}}) : mesh({{"x", 3}, {"y", 2}});
    OwningOpRef<ModuleOp> module = random(seed, 6, m);
    func::FuncOp function = functionOf(*module);
    FailureOr<SideTable> table = readFunction(m, function);
    ASSERT_TRUE(succeeded(table));
    FailureOr<Propagated> propagated = solveLayouts(*std::move(table));
    ASSERT_TRUE(succeeded(propagated));
    ASSERT_TRUE(succeeded(writeLayouts(*propagated)));
    function.setType(FunctionType::get(
        &context, function.getBody().getArgumentTypes(),
        function.getBody().front().getTerminator()->getOperandTypes()));
    if (failed(verify(*module))) {
      module->dump();
      FAIL() << "seed " << seed;
    }
  }
}

TEST_F(PropagationTest, TheOrderOfOpsDoesNotMatter) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    MeshAttr m = mesh({{"x", 2}, {"y", 2}});
    std::optional<Objective> first;
    for (unsigned shuffle = 0; shuffle < 4; ++shuffle) {
      OwningOpRef<ModuleOp> module = random(seed, 6, m, shuffle);
      Choices choices(m, functionOf(*module));
      ASSERT_TRUE(succeeded(choices.candidates));
      ReshardCosts costs(m);
      Solution solution =
          Solver(*choices.table, *choices.candidates, costs).solve();
      // The last part of the objective makes assignments distinct.
      if (!first)
        first = solution.objective;
      EXPECT_EQ(solution.objective, *first) << seed;
    }
  }
}

// Candidates that are ruled out say nothing, and that must not silence what is
// said of the other functions of a module, which are laid out at the same time.
TEST_F(PropagationTest, FunctionsDoNotSilenceEachOther) {
  constexpr int numFunctions = 64;
  std::string text = R"(
    #mesh = #sharding.mesh<["seq"=2]>
    module attributes {sharding.mesh = #mesh} {)";
  for (int i = 0; i < numFunctions; ++i)
    text += R"(
    func.func @f)" +
            std::to_string(i) + R"((
        %q: tensor<2x4x64x8xf32> {graph.role = #graph.input<"q">},
        %k: tensor<2x4x64x8xf32> {graph.role = #graph.input<"k">,
          sharding.constraint = #sharding.constraint<#sharding.layout<#mesh,
            [{}, {}, {"seq"}, {}]> from "k=[-,-,seq,-]">},
        %v: tensor<2x4x64x8xf32> {graph.role = #graph.input<"v">})
        -> (tensor<2x4x64x8xf32> {graph.role = #graph.output<"y">}) {
      %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true} : (
        tensor<2x4x64x8xf32>, tensor<2x4x64x8xf32>, tensor<2x4x64x8xf32>)
        -> (tensor<2x4x64x8xf32>, tensor<2x4x64xf32>)
      return %y : tensor<2x4x64x8xf32>
    })";
  text += "\n}";
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  int numRemarks = 0;
  ScopedDiagnosticHandler count(&context, [&](Diagnostic &diagnostic) {
    numRemarks += diagnostic.getSeverity() == DiagnosticSeverity::Remark;
    return success();
  });
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(createPropagateLayouts());
  manager.addNestedPass<func::FuncOp>(createDecomposeComposites());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  EXPECT_EQ(numRemarks, numFunctions);
}

} // namespace
