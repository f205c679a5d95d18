// The planner's paths against brute force: every layout, every op between any
// two of them, and the cheapest path of bounded length.

#include "compiler/cost/ReshardPlanner.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::MeshAttr;
using sharding::MovementKind;
using sharding::ReductionKind;

namespace {

constexpr MovementKind movements[] = {
    MovementKind::Slice,         MovementKind::ToPartial,
    MovementKind::AllGather,     MovementKind::AllReduce,
    MovementKind::ReduceScatter, MovementKind::AllToAll,
    MovementKind::Permute,       MovementKind::Repad,
    MovementKind::Fill};

bool isCollective(const ReshardPlanner::Step &step) {
  return sharding::getCollectiveKind(step.kind).has_value();
}

class ReshardPlannerTest : public testing::Test {
protected:
  ReshardPlannerTest() { context.loadDialect<sharding::ShardingDialect>(); }

  MeshAttr mesh(ArrayRef<std::pair<StringRef, int64_t>> axes) {
    SmallVector<StringAttr> names;
    SmallVector<int64_t> sizes;
    for (auto [name, size] : axes) {
      names.push_back(StringAttr::get(&context, name));
      sizes.push_back(size);
    }
    return MeshAttr::get(&context, names, sizes);
  }

  /// Returns every layout of `shape` over subsets of `sub-axes`, where dim d
  /// may be padded to an extent of `extents[d]` (0: not padded).
  SmallVector<LayoutAttr> enumerate(MeshAttr mesh, ArrayRef<int64_t> shape,
                                    ArrayRef<AxisRef> subAxes,
                                    ArrayRef<SmallVector<int64_t>> extents,
                                    ArrayRef<ReductionKind> kinds) {
    llvm::SetVector<LayoutAttr> layouts;
    SmallVector<SmallVector<AxisRef>> stacks(shape.size());
    SmallVector<AxisRef> partial;
    SmallVector<bool> used(subAxes.size());
    std::function<void(size_t, SmallVector<DimAttr>)> addExtents =
        [&](size_t dim, SmallVector<DimAttr> dims) {
          if (dim == shape.size()) {
            for (ReductionKind kind : kinds)
              layouts.insert(LayoutAttr::get(mesh, dims, kind, partial));
            return;
          }
          for (int64_t extent : extents[dim]) {
            DimAttr layout = DimAttr::get(mesh, stacks[dim], extent);
            if (layout.getExtent(shape[dim]) % layout.getNumBlocks())
              continue;
            SmallVector<DimAttr> more(dims);
            more.push_back(layout);
            addExtents(dim + 1, more);
          }
        };
    std::function<void()> extend = [&] {
      addExtents(0, {});
      for (auto [i, subAxis] : llvm::enumerate(subAxes)) {
        if (used[i])
          continue;
        used[i] = true;
        for (SmallVector<AxisRef> &stack : stacks) {
          stack.push_back(subAxis);
          extend();
          stack.pop_back();
        }
        partial.push_back(subAxis);
        extend();
        partial.pop_back();
        used[i] = false;
      }
    };
    extend();
    return layouts.takeVector();
  }

  /// Returns a mask of the `sub-axes` that a layout uses.
  static uint32_t usedSubAxes(LayoutAttr layout, ArrayRef<AxisRef> subAxes) {
    uint32_t mask = 0;
    for (AxisRef ref : layout.getUsedAxes())
      for (auto [i, subAxis] : llvm::enumerate(subAxes))
        if (ref.overlaps(subAxis))
          mask |= 1u << i;
    return mask;
  }

  /// Checks every pair of layouts against paths of at most `length` ops. A plan
  /// is a cheapest path with the fewest collectives.
  void check(MeshAttr mesh, ArrayRef<int64_t> shape, Type element,
             ArrayRef<AxisRef> subAxes, ArrayRef<SmallVector<int64_t>> extents,
             ArrayRef<ReductionKind> kinds, const CostModel &model,
             int length) {
    SmallVector<LayoutAttr> layouts =
        enumerate(mesh, shape, subAxes, extents, kinds);
    size_t count = layouts.size();
    constexpr int64_t none = -1;
    std::vector<int64_t> edges(count * count, none);
    auto type = [&](size_t i) {
      return RankedTensorType::get(shape, element, layouts[i]);
    };
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j)
        for (MovementKind kind : movements)
          if (auto movement =
                  sharding::getMovement(kind, layouts[i], layouts[j])) {
            int64_t cost = model.getPicoseconds(kind, movement->axes,
                                                getLocalBytes(type(i)),
                                                getLocalBytes(type(j)));
            int64_t &edge = edges[i * count + j];
            edge = edge == none ? cost : std::min(edge, cost);
          }

    ReshardPlanner planner(model);
    int64_t pairs = 0;
    for (size_t from = 0; from < count; ++from) {
      // One search per set of axes and extents that the two layouts use.
      using Way = std::pair<int64_t, int64_t>; // cost, collectives
      std::map<std::pair<uint32_t, SmallVector<int64_t>>, std::vector<Way>>
          best;
      for (size_t to = 0; to < count; ++to) {
        uint32_t used = usedSubAxes(layouts[from], subAxes) |
                        usedSubAxes(layouts[to], subAxes);
        SmallVector<int64_t> padded;
        for (DimAttr dim : layouts[to].getDims())
          padded.push_back(dim.getPadded());
        auto allowed = [&](LayoutAttr layout) {
          for (auto [d, dim] : llvm::enumerate(layout.getDims()))
            if (dim.getPadded() != padded[d] &&
                dim.getPadded() != layouts[from].getDim(d).getPadded())
              return false;
          return (usedSubAxes(layout, subAxes) & ~used) == 0;
        };
        auto [it, isNew] =
            best.try_emplace({used, padded}, count, Way{INT64_MAX, 0});
        std::vector<Way> &ways = it->second;
        if (isNew) {
          ways[from] = {0, 0};
          for (int step = 0; step < length; ++step) {
            std::vector<Way> next = ways;
            for (size_t i = 0; i < count; ++i) {
              if (ways[i].first == INT64_MAX || !allowed(layouts[i]))
                continue;
              for (size_t j = 0; j < count; ++j)
                if (int64_t edge = edges[i * count + j]; edge != none)
                  next[j] = std::min(next[j], {ways[i].first + edge,
                                               ways[i].second + (edge > 0)});
            }
            ways = std::move(next);
          }
        }
        const ReshardPlanner::Plan *plan =
            planner.plan(type(from), layouts[to]);
        ASSERT_TRUE(plan) << layouts[from].toString() << " to "
                          << layouts[to].toString();
        ASSERT_EQ(plan->picoseconds, ways[to].first)
            << layouts[from].toString() << " to " << layouts[to].toString();
        ASSERT_EQ(llvm::count_if(plan->steps, isCollective), ways[to].second)
            << layouts[from].toString() << " to " << layouts[to].toString();
        LayoutAttr end =
            plan->steps.empty() ? layouts[from] : plan->steps.back().layout;
        ASSERT_EQ(end, layouts[to]);
        ++pairs;
      }
    }
    RecordProperty("pairs", pairs);
  }

  MLIRContext context;
  Type f32 = Float32Type::get(&context);
};

TEST_F(ReshardPlannerTest, PathsOverTwoAxesAreOptimal) {
  MeshAttr m = mesh({{"data", 2}, {"tensor", 4}});
  for (int64_t scale : {1, 1 << 20})
    check(m, {8, 8 * scale}, f32, {m.getAxis(0), m.getAxis(1)}, {{0}, {0}},
          {ReductionKind::Sum}, CostModel(m), 5);
}

TEST_F(ReshardPlannerTest, PathsOfTheFewestBytesHaveTheFewestCollectives) {
  MeshAttr m = mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  check(m, {8, 8}, f32, {m.getAxis(0), m.getAxis(1), m.getAxis(2)}, {{0}, {0}},
        {ReductionKind::Sum}, CostModel::countingBytes(m), 5);
}

// Where a slow link would hold a fast one back, a movement is made of one over
// each axis, so paths are longer.
TEST_F(ReshardPlannerTest, PathsOverThreeAxesWithUnequalLinksAreOptimal) {
  MeshAttr m = mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  context.loadDialect<rank::RankDialect>();
  auto machine =
      rank::MachineAttr::get(&context, /*target=*/{}, /*threads=*/1,
                             {rank::LinkAttr::get(&context, "x", 10, 100),
                              rank::LinkAttr::get(&context, "z", 20, 5)});
  check(m, {8, 4096}, f32, {m.getAxis(0), m.getAxis(1), m.getAxis(2)},
        {{0}, {0}}, {ReductionKind::Sum}, CostModel(m, machine), 7);
}

// A link of 334 GB/s takes 2.994 ps for a byte. Rounded one by one, a reduction
// and a gather of 256 bytes would take 1 ps less than the all-reduce of 512.
TEST_F(ReshardPlannerTest, PathsOverFastLinksHaveTheFewestCollectives) {
  MeshAttr m = mesh({{"x", 2}});
  context.loadDialect<rank::RankDialect>();
  for (double bandwidth : {334, 499, 5000}) {
    auto machine = rank::MachineAttr::get(
        &context, /*target=*/{}, /*threads=*/1,
        {rank::LinkAttr::get(&context, "x", 0, bandwidth)});
    ReshardPlanner planner(CostModel(m, machine));
    DimAttr whole = DimAttr::get(m, {});
    auto sum = LayoutAttr::get(m, {whole}, ReductionKind::Sum, {m.getAxis(0)}),
         all = LayoutAttr::get(m, {whole}, ReductionKind::Sum, {});
    for (int64_t elements = 2; elements < 512; elements += 2) {
      const ReshardPlanner::Plan *plan =
          planner.plan(RankedTensorType::get({elements}, f32, sum), all);
      ASSERT_TRUE(plan);
      ASSERT_EQ(plan->steps.size(), 1u) << elements << " " << bandwidth;
      EXPECT_EQ(plan->steps[0].kind, MovementKind::AllReduce);
    }
  }
}

TEST_F(ReshardPlannerTest, PathsOverThreeDimsWhereSomeCannotBeSplitAreOptimal) {
  MeshAttr m = mesh({{"x", 2}, {"y", 4}});
  check(m, {2, 6, 8}, f32, {m.getAxis(0), m.getAxis(1)}, {{0}, {0}, {0}},
        {ReductionKind::Sum}, CostModel(m), 5);
}

TEST_F(ReshardPlannerTest, PathsBetweenKindsOfPartialAreOptimal) {
  MeshAttr m = mesh({{"x", 2}, {"y", 2}});
  check(m, {8}, f32, {m.getAxis(0), m.getAxis(1)}, {{0}},
        {ReductionKind::Sum, ReductionKind::Max}, CostModel(m), 6);
}

TEST_F(ReshardPlannerTest, PathsBetweenPaddedExtentsAreOptimal) {
  MeshAttr m = mesh({{"x", 2}, {"y", 4}});
  check(m, {6, 8}, f32, {m.getAxis(0), m.getAxis(1)}, {{0, 8, 16}, {0}},
        {ReductionKind::Sum}, CostModel(m), 6);
}

TEST_F(ReshardPlannerTest, HalvesOfAnAxisMoveApart) {
  MeshAttr m = mesh({{"x", 4}, {"y", 2}});
  AxisRef major{0, 1, 2}, minor{0, 2, 2};
  DimAttr whole = DimAttr::get(m, {});
  auto layout = [&](ArrayRef<AxisRef> first, ArrayRef<AxisRef> second) {
    return LayoutAttr::get(m,
                           {DimAttr::get(m, first), DimAttr::get(m, second)});
  };
  ReshardPlanner planner{CostModel(m)};
  auto steps = [&](LayoutAttr from, LayoutAttr to) {
    std::string text;
    const auto *plan =
        planner.plan(RankedTensorType::get({8, 8}, f32, from), to);
    if (plan)
      for (const auto &step : plan->steps)
        text += getName(step.kind).str() + " " + step.layout.toString() + "; ";
    return text;
  };
  EXPECT_EQ(steps(layout({m.getAxis(0)}, {}), layout({major}, {})),
            "all_gather [{\"x\":(1)2}, {}]; ");
  EXPECT_EQ(steps(layout({m.getAxis(0)}, {}), layout({major}, {minor})),
            "all_to_all [{\"x\":(1)2}, {\"x\":(2)2}]; ");
  EXPECT_EQ(steps(layout({major}, {}), layout({m.getAxis(0)}, {})),
            "slice [{\"x\"}, {}]; ");
  EXPECT_EQ(steps(LayoutAttr::get(m, {whole, whole}, ReductionKind::Sum,
                                  {m.getAxis(0)}),
                  layout({major}, {minor}).withPartial(ReductionKind::Sum, {})),
            "reduce_scatter [{}, {\"x\":(2)2}], partial = sum "
            "{\"x\":(1)2}; reduce_scatter [{\"x\":(1)2}, {\"x\":(2)2}]; ");
}

TEST_F(ReshardPlannerTest, FillComesLastAndStaysThroughCollectives) {
  MeshAttr m = mesh({{"x", 4}});
  AxisRef x = m.getAxis(0);
  auto layout = [&](ArrayRef<AxisRef> axes, int64_t padded,
                    sharding::Fill fill) {
    return LayoutAttr::get(m, {DimAttr::get(m, axes, padded, fill)});
  };
  ReshardPlanner planner{CostModel(m)};
  auto steps = [&](LayoutAttr from, LayoutAttr to) {
    std::string text;
    for (const auto &step :
         planner.plan(RankedTensorType::get({6}, f32, from), to)->steps)
      text += getName(step.kind).str() + " " + step.layout.toString() + "; ";
    return text;
  };
  EXPECT_EQ(steps(layout({}, 0, sharding::Fill::Undefined),
                  layout({x}, 8, sharding::Fill::Zero)),
            "repad [{} pad 8 fill zero]; slice [{\"x\"} pad 8 fill zero]; ");
  EXPECT_EQ(steps(layout({x}, 8, sharding::Fill::Undefined),
                  layout({x}, 8, sharding::Fill::NegInf)),
            "fill [{\"x\"} pad 8 fill neg_inf]; ");
}

TEST_F(ReshardPlannerTest, ARepadGivesBackTheFillThatASumLost) {
  MeshAttr m = mesh({{"x", 2}});
  ReshardPlanner planner{CostModel(m)};
  LayoutAttr from =
      LayoutAttr::get(m, {DimAttr::get(m, {}, 8, sharding::Fill::Zero)});
  LayoutAttr to =
      LayoutAttr::get(m, {DimAttr::get(m, {}, 12, sharding::Fill::NegInf)},
                      ReductionKind::Max, m.getAxis(0));
  const auto *plan = planner.plan(RankedTensorType::get({6}, f32, from), to);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->steps[0].kind, MovementKind::ToPartial);
  EXPECT_EQ(plan->steps[1].kind, MovementKind::Repad);
  EXPECT_EQ(plan->steps[1].layout, to);
}

TEST_F(ReshardPlannerTest, WhatNoCollectiveDoesIsRefusedWithTheReason) {
  MeshAttr m = mesh({{"x", 2}, {"pipe", 2}});
  ReshardPlanner planner{CostModel(m)};
  AxisRef x = m.getAxis(0);
  LayoutAttr whole = LayoutAttr::get(m, {DimAttr::get(m, {})});
  auto refused = [&](LayoutAttr from, LayoutAttr to) {
    std::string reason;
    EXPECT_FALSE(
        planner.plan(RankedTensorType::get({8}, f32, from), to, &reason));
    return reason;
  };
  auto bordered = [&](bool spills) {
    return LayoutAttr::get(
        m, {DimAttr::get(m, x, 0, sharding::Fill::Undefined, 1, 1, spills)});
  };
  EXPECT_EQ(refused(bordered(false), whole),
            "a value with borders is not moved; take the one without");
  EXPECT_EQ(refused(whole, bordered(true)),
            "only the op that makes sums for the neighbours gives them");
  LayoutAttr placed = LayoutAttr::get(m, {DimAttr::get(m, {})},
                                      ReductionKind::Sum, {}, {{1, 0}});
  EXPECT_EQ(refused(placed, whole), "no op moves a value to another place");
}

TEST_F(ReshardPlannerTest, WhatHasNoWayIsRefusedWithTheReason) {
  MeshAttr m = mesh({{"x", 6}});
  ReshardPlanner planner{CostModel(m)};
  std::string reason;
  auto layout = [&](AxisRef ref) {
    return LayoutAttr::get(m, {DimAttr::get(m, ref)});
  };
  EXPECT_FALSE(planner.plan(RankedTensorType::get({12}, f32, layout({0, 1, 2})),
                            layout({0, 1, 3}), &reason));
  EXPECT_EQ(reason, "the layouts cut one mesh axis at sizes that do not divide "
                    "each other");
}

TEST_F(ReshardPlannerTest, AnOpOfTheRegionRunsOncePerMicrobatch) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  auto module = parseSourceString<ModuleOp>(
      R"(func.func @step(%x: tensor<3x4x2xf32>) -> tensor<2xf32> {
    %sum = graph.microbatches count = 3 of(%x) carry() {
    ^bb0(%index: tensor<i64>, %part: tensor<4x2xf32>):
      %0 = graph.reduce sum %part over [0] : (tensor<4x2xf32>) -> tensor<2xf32>
      graph.yield sum(%0) carry() : tensor<2xf32>
    } : (tensor<3x4x2xf32>) -> tensor<2xf32>
    %1 = graph.neg %sum : tensor<2xf32>
    return %1 : tensor<2xf32>
  })",
      &context);
  ASSERT_TRUE(module);
  module->walk([](Operation *op) {
    if (isa<graph::ReduceOp>(op))
      EXPECT_EQ(getExecutions(op), 3);
    if (isa<graph::NegOp>(op))
      EXPECT_EQ(getExecutions(op), 1);
  });
}

TEST(CostModelTest, BytesAreThoseThatOneDeviceSends) {
  EXPECT_EQ(CostModel::getBytes(MovementKind::AllGather, 4, 100, 400), 300);
  EXPECT_EQ(CostModel::getBytes(MovementKind::ReduceScatter, 4, 400, 100), 300);
  EXPECT_EQ(CostModel::getBytes(MovementKind::AllReduce, 4, 400, 400), 600);
  EXPECT_EQ(CostModel::getBytes(MovementKind::AllReduce, 4, 4, 4), 6);
  EXPECT_EQ(CostModel::getBytes(MovementKind::AllToAll, 4, 400, 400), 300);
  EXPECT_EQ(CostModel::getBytes(MovementKind::Permute, 4, 400, 400), 400);
  EXPECT_EQ(CostModel::getBytes(MovementKind::Slice, 4, 400, 100), 0);
}

} // namespace
