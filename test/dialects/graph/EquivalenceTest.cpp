// The verifier accepts an op with layouts exactly if running it on every device
// gives the right result.
//
// For each op, small layouts of all its operands and results are enumerated:
// split, split over sub-axes, padded with each fill, partial of each kind. The
// verifier judges each combination by the op's sharding rule; the distributed
// evaluator, which knows neither rule nor verifier, computes it. Where the two
// disagree, the difference must be one of the policies listed by name below.

#include <map>
#include <random>

#include "compiler/evaluate/Evaluator.h"
#include "dialects/Register.h"
#include "dialects/graph/LayoutVerifier.h"
#include "mlir/Parser/Parser.h"
#include "test/dialects/graph/EquivalenceCoverage.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using evaluate::Devices;
using evaluate::Tensor;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::Fill;
using sharding::LayoutAttr;
using sharding::MeshAttr;
using sharding::ReductionKind;

namespace {

struct Case {
  const char *name;
  /// The function's signature and one op; see `program`.
  const char *text;
  /// The kinds of the rule's factors in its order, written by hand: p parallel,
  /// r reduction, i indexed, h halo, c composite, x replicated.
  const char *kinds;

  friend void PrintTo(const Case &test, std::ostream *out) {
    *out << test.name;
  }
};

const Case cases[] = {
#include "test/dialects/graph/EquivalenceCases.inc"
};

Coverage *const coverage =
    static_cast<Coverage *>(testing::AddGlobalTestEnvironment(new Coverage));

/// One layout for each operand and result.
using Combination = SmallVector<LayoutAttr>;

class Equivalence {
public:
  Equivalence(const Case &test, MLIRContext &context, MeshAttr mesh,
              SmallVector<AxisRef> subAxes)
      : context(context), mesh(mesh), subAxes(std::move(subAxes)), random(7) {
    context.getOrLoadDialect<func::FuncDialect>();
    module = parseSourceString<ModuleOp>(test.text, &context);
    EXPECT_TRUE(module) << test.text;
    auto function = *module->getOps<func::FuncOp>().begin();
    // The op under test is the last one before the return.
    op = cast<graph::GraphOp>(
        function.getBody().front().getTerminator()->getPrevNode());
    for (Value operand : op->getOperands())
      values.push_back(operand);
    for (Value result : op->getResults())
      values.push_back(result);
    // A value used twice would have one layout.
    // Booleans agree by chance more often than numbers.
    bool hasBooleans = llvm::any_of(function.getArgumentTypes(), [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isInteger(1);
    });
    for (uint64_t seed = 1; seed <= (hasBooleans ? 16 : 3); ++seed) {
      auto &arguments =
          inputs.emplace_back(evaluate::randomArguments(function, seed));
      // The values are wide enough that no function is monotone by chance, and
      // some indices are out of range.
      for (Tensor &argument : arguments) {
        for (double &value : argument.floats)
          value *= 8;
        if (isa<graph::GatherOp, graph::ScatterAddOp, graph::AddOp>(op))
          for (int64_t &value : argument.integers)
            value = static_cast<int64_t>(random() % 8) - 1;
      }
      auto &expected =
          outputs.emplace_back(*evaluate::evaluateGlobal(function, arguments));
      (void)expected;
    }
    for (auto [i, value] : llvm::enumerate(values)) {
      candidates.push_back(enumerate(cast<RankedTensorType>(value.getType()),
                                     value.getDefiningOp() == op));
      addBordered(i, candidates.back());
    }
  }

  /// Returns every combination, or if these are too many: all that the rule
  /// derives from an assignment of axes to factors, each of these with one
  /// tensor's layout changed, and random ones.
  std::vector<Combination> combinations(size_t limit) {
    double total = 1;
    for (const auto &list : candidates)
      total *= list.size();
    std::vector<Combination> result;
    if (total <= limit) {
      result.emplace_back();
      for (const auto &list : candidates) {
        std::vector<Combination> longer;
        for (const Combination &prefix : result)
          for (LayoutAttr layout : list) {
            longer.push_back(prefix);
            longer.back().push_back(layout);
          }
        result = std::move(longer);
      }
      return result;
    }
    std::vector<Combination> derived = derive();
    result = derived;
    std::shuffle(derived.begin(), derived.end(), random);
    for (const Combination &combination : derived) {
      if (result.size() >= derived.size() + limit)
        break;
      for (auto [i, list] : llvm::enumerate(candidates))
        for (LayoutAttr layout : list) {
          result.push_back(combination);
          result.back()[i] = layout;
        }
    }
    for (size_t n = limit / 4; n > 0; --n) {
      Combination &combination = result.emplace_back();
      for (const auto &list : candidates)
        combination.push_back(list[random() % list.size()]);
    }
    return result;
  }

  void apply(const Combination &combination) {
    for (auto [value, layout] : llvm::zip_equal(values, combination))
      value.setType(
          withLayout(cast<RankedTensorType>(value.getType()), layout));
  }

  bool accepts(const graph::ShardingRule &rule) {
    ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
    return succeeded(graph::verifyLayouts(op, rule));
  }

  /// Returns true if the devices compute the right result from random inputs.
  bool isRight() {
    ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
    for (auto [arguments, expected] : llvm::zip_equal(inputs, outputs)) {
      SmallVector<Devices> operands;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        auto argument = cast<BlockArgument>(operand);
        operands.push_back(evaluate::scatter(arguments[argument.getArgNumber()],
                                             sharding::getLayout(operand),
                                             11 + i));
      }
      auto results = evaluate::runOnDevices(op, operands, mesh);
      if (failed(results))
        return false;
      for (auto [i, result] : llvm::enumerate(op->getResults())) {
        auto value = evaluate::assemble(
            (*results)[i], cast<RankedTensorType>(result.getType()), message);
        if (failed(value) || !evaluate::agree(*value, expected[i], message))
          return false;
      }
    }
    return true;
  }

  std::string describe() {
    std::string text = op->getName().getStringRef().str();
    for (Value value : values)
      text += "\n  " + sharding::getLayout(value).toString();
    return text + "\n  (" + message + ")";
  }

  /// Returns the policy by which a correct combination is rejected.
  std::string policy() {
    // A device whose block is all padding holds anything: other axes than the
    // rule's can be right there.
    for (Value value : values) {
      LayoutAttr layout = sharding::getLayout(value);
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      for (auto [dim, size] : llvm::zip_equal(layout.getDims(), shape)) {
        int64_t extent = dim.getExtent(size);
        // Ops that split a dim need it without padding, which a repad removes
        // at no cost.
        if (dim.getPadded() && dim.getAxes().empty())
          return "padded dim that is whole on every device";
        if (extent - size >= extent / dim.getNumBlocks())
          return "block of nothing but padding";
      }
    }
    // Rows or matrices that are zero there count for nothing, whichever group
    // they are in; L9 asks it of all operands.
    if (isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op))
      for (Value numbers : op->getOperands().drop_front(2))
        if (sharding::getLayout(numbers).getDims()[0].getPadded())
          return "numbers of groups without a fill";
    for (Value operand : op->getOperands()) {
      LayoutAttr layout = sharding::getLayout(operand);
      // Each summand would be rounded on its own: a pass reduces first, or
      // converts later.
      if (isa<graph::ConvertOp>(op) && layout.isPartial())
        return "convert of a partial";
      // Passing is declared for all results of an op; one that does not depend
      // on the operand at all (attention's lse on v) is whole.
      if (op->getNumResults() > 1 && layout.isPartial())
        return "one of several results is linear";
      // If no two updates collide, adding is moving.
      if (isa<graph::ScatterAddOp>(op) && layout.isPartial() &&
          layout.getPartialKind() != ReductionKind::Sum)
        return "scatter_add of a partial extremum without collisions";
      // Zeros are added wherever they go.
      if (isa<graph::ScatterAddOp>(op) && layout.getRank() &&
          llvm::any_of(layout.getDims(),
                       [](DimAttr dim) { return dim.getFill() == Fill::Zero; }))
        return "zero updates at undefined indices";
      // The identity of an extremum, plus something, may wrap.
      if (isa<graph::AddOp>(op) && layout.isPartial() &&
          layout.getPartialKind() != ReductionKind::Sum &&
          isa<IntegerType>(
              cast<RankedTensorType>(operand.getType()).getElementType()))
        return "sum of integers with a partial extremum";
      // Monotone in one operand and antitone in the other, by its direction.
      if (isa<graph::CompareOp>(op) && layout.isPartial())
        return "compare of a partial extremum";
      // Max of -x is -(min of x): a layout that changes its kind is never
      // worth a rule.
      for (Value result : op->getResults())
        if (layout.isPartial() && sharding::getLayout(result).isPartial() &&
            layout.getPartialKind() !=
                sharding::getLayout(result).getPartialKind())
          return "antitone op of a partial extremum";
    }
    // A replicated value is also the maximum over the devices. A layout states
    // the stronger property.
    if (acceptsWithLessPartialExtrema())
      return "replicated value taken as a partial extremum";
    // An all-zero constant is a partial sum of zeros.
    if (op->getNumOperands() == 0 &&
        sharding::getLayout(op->getResult(0)).isPartial())
      return "partial constant";
    return "";
  }

  /// Factors that the layouts split.
  SmallVector<int> splitFactors(const graph::ShardingRule &rule) {
    SmallVector<int> split;
    for (auto [i, value] : llvm::enumerate(values)) {
      unsigned numOperands = op->getNumOperands();
      const auto &tensor =
          i < numOperands ? rule.operands[i] : rule.results[i - numOperands];
      for (auto [d, dim] : llvm::enumerate(tensor)) {
        SmallVector<int64_t> sizes;
        for (int factor : dim)
          sizes.push_back(rule.factors[factor].size);
        if (auto axes =
                graph::projectAxes(sharding::getLayout(value).getDim(d), sizes))
          for (auto [factor, list] : llvm::zip_equal(dim, *axes))
            if (!list.empty())
              split.push_back(factor);
      }
    }
    return split;
  }

  /// Returns true if the verifier accepts the op with some axes removed from a
  /// result's partial maximum or minimum.
  bool acceptsWithLessPartialExtrema() {
    graph::ShardingRule rule = op.getShardingRule();
    for (Value result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      LayoutAttr layout = sharding::getLayout(type);
      if (!layout.isPartial() || layout.getPartialKind() == ReductionKind::Sum)
        continue;
      for (size_t kept = 0; kept < (size_t(1) << subAxes.size()) - 1; ++kept) {
        SmallVector<AxisRef> axes;
        for (auto [i, subAxis] : llvm::enumerate(subAxes))
          if ((kept >> i & 1) &&
              sharding::overlap(layout.getPartialAxes(), subAxis))
            axes.push_back(subAxis);
        if (sharding::product(axes) >=
            sharding::product(layout.getPartialAxes()))
          continue;
        result.setType(withLayout(
            type, layout.withPartial(layout.getPartialKind(), axes)));
        bool accepted = accepts(rule) || acceptsWithLessPartialExtrema();
        result.setType(type);
        if (accepted)
          return true;
      }
    }
    return false;
  }

  /// Counts what the layouts do to each factor.
  void record(std::vector<Coverage::Row> &rows, const graph::ShardingRule &rule,
              bool accepted) {
    std::vector<std::array<bool, numAspects>> seen(rows.size());
    std::array<bool, 3> partial{};
    for (auto [i, value] : llvm::enumerate(values)) {
      LayoutAttr layout = sharding::getLayout(value);
      if (layout.isPartial())
        partial[static_cast<int>(layout.getPartialKind())] = true;
      unsigned numOperands = op->getNumOperands();
      const auto &tensor =
          i < numOperands ? rule.operands[i] : rule.results[i - numOperands];
      for (auto [d, dim] : llvm::enumerate(tensor)) {
        SmallVector<int64_t> sizes;
        for (int factor : dim)
          sizes.push_back(rule.factors[factor].size);
        for (int factor : dim)
          seen[factor][Padded] |= layout.getDim(d).getPadded() != 0;
        auto axes = graph::projectAxes(layout.getDim(d), sizes);
        if (!axes)
          continue;
        for (auto [factor, list] : llvm::zip_equal(dim, *axes))
          for (AxisRef ref : list)
            seen[factor]
                [ref.size == mesh.getAxisSizes()[ref.axis] ? Split : SubAxis] =
                    true;
      }
    }
    for (auto [row, aspects] : llvm::zip_equal(rows, seen)) {
      for (int kind = 0; kind < 3; ++kind)
        aspects[PartialSum + kind] =
            partial[kind] && (aspects[Split] || aspects[SubAxis]);
      for (int aspect = 0; aspect < numAspects; ++aspect)
        if (aspects[aspect])
          ++(accepted ? row.accepted : row.rejected)[aspect];
    }
  }

  graph::GraphOp op;

private:
  /// Layouts of one tensor: each sub-axis splits a dim (major or minor to the
  /// others there), is partial, or is not used.
  SmallVector<LayoutAttr> enumerate(RankedTensorType type, bool isResult) {
    SmallVector<LayoutAttr> layouts;
    int64_t rank = type.getRank(), options = 1 + rank + 3;
    int64_t total = 1;
    for (size_t i = 0; i < subAxes.size(); ++i)
      total *= options;
    for (int64_t code = 0; code < total; ++code)
      for (bool reversed : {false, true}) {
        if (reversed && subAxes.size() < 2)
          continue;
        SmallVector<SmallVector<AxisRef>> dims(rank);
        SmallVector<AxisRef> partial;
        std::optional<int64_t> kind;
        bool valid = true;
        int64_t rest = code;
        for (AxisRef subAxis : subAxes) {
          int64_t choice = rest % options;
          rest /= options;
          if (choice == 0)
            continue;
          if (choice <= rank) {
            auto &axes = dims[choice - 1];
            axes.insert(reversed ? axes.begin() : axes.end(), subAxis);
          } else {
            valid &= !kind || *kind == choice - rank - 1;
            kind = choice - rank - 1;
            partial.push_back(subAxis);
          }
        }
        if (!valid)
          continue;
        auto reduction = static_cast<ReductionKind>(kind.value_or(0));
        addPadded(type, dims, partial, reduction, isResult, layouts);
      }
    // Padded, but whole on every device.
    for (int64_t d = 0; d < rank && subAxes.size() == 1; ++d) {
      SmallVector<DimAttr> dims(rank, DimAttr::get(mesh, {}));
      dims[d] = DimAttr::get(mesh, {}, type.getDimSize(d) + 1);
      layouts.push_back(LayoutAttr::get(mesh, dims));
    }
    llvm::sort(layouts, [](LayoutAttr a, LayoutAttr b) {
      return a.toString() < b.toString();
    });
    layouts.erase(llvm::unique(layouts), layouts.end());
    return layouts;
  }

  /// Adds layouts with the borders and extents of halo factors, and with
  /// others.
  void addBordered(unsigned i, SmallVector<LayoutAttr> &layouts) {
    graph::ShardingRule rule = op.getShardingRule();
    unsigned numOperands = op->getNumOperands();
    bool isResult = i >= numOperands;
    unsigned number = isResult ? i - numOperands : i;
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(values[i].getType()).getShape();
    const auto &tensor =
        isResult ? rule.results[number] : rule.operands[number];
    SmallVector<LayoutAttr> plain = layouts;
    for (auto [d, factors] : llvm::enumerate(tensor)) {
      if (factors.size() != 1 ||
          rule.factors[factors[0]].kind != graph::FactorKind::Halo)
        continue;
      graph::Border border = rule.getBorder(isResult, number, d);
      for (LayoutAttr layout : plain) {
        DimAttr dim = layout.getDim(d);
        int64_t blocks = dim.getNumBlocks();
        if (blocks == 1)
          continue;
        auto add = [&](DimAttr other) {
          layouts.push_back(layout.withDim(d, other));
        };
        for (int64_t more : {0, 1})
          add(rule.layDim(
              isResult, number, d, shape[d], mesh, dim.getAxes(),
              (llvm::divideCeil(rule.factors[factors[0]].size, blocks) + more) *
                  blocks,
              dim.getFill()));
        // Borders that are as wide, of the other kind or the other way round.
        for (bool spills : {false, true})
          for (auto [low, high] : {std::pair(border.low, border.high),
                                   std::pair(border.high, border.low + 1)})
            add(DimAttr::get(mesh, dim.getAxes(), dim.getPadded(),
                             dim.getFill(), low, high, spills));
      }
    }
    llvm::sort(layouts, [](LayoutAttr a, LayoutAttr b) {
      return a.toString() < b.toString();
    });
    layouts.erase(llvm::unique(layouts), layouts.end());
  }

  void addPadded(RankedTensorType type, ArrayRef<SmallVector<AxisRef>> dims,
                 ArrayRef<AxisRef> partial, ReductionKind kind, bool isResult,
                 SmallVector<LayoutAttr> &layouts) {
    SmallVector<Fill> fills = {Fill::Undefined};
    bool padded = false;
    for (auto [axes, size] : llvm::zip_equal(dims, type.getShape()))
      padded |= size % sharding::product(axes) != 0;
    if (padded && !isResult) {
      fills.push_back(Fill::Zero);
      if (isa<FloatType>(type.getElementType()))
        fills.push_back(Fill::NegInf);
    }
    for (Fill fill : fills) {
      SmallVector<DimAttr> attributes;
      for (auto [axes, size] : llvm::zip_equal(dims, type.getShape())) {
        int64_t blocks = sharding::product(axes);
        bool divides = size % blocks == 0;
        attributes.push_back(DimAttr::get(
            mesh, axes, divides ? 0 : (size + blocks - 1) / blocks * blocks,
            divides ? Fill::Undefined : fill));
      }
      layouts.push_back(LayoutAttr::get(mesh, attributes, kind, partial));
    }
  }

  /// Returns the operand layouts of the rule for each assignment of sub-axes to
  /// factors, with the results that follow, and with results that are typed as
  /// whole where they would be partial: for each kind of partial with its fill,
  /// with padding where it is needed and wherever a dim is split.
  std::vector<Combination> derive() {
    std::vector<Combination> result;
    for (ReductionKind kind :
         {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min})
      for (bool padsAll : {false, true})
        derive(kind, padsAll, result);
    return result;
  }

  void derive(ReductionKind kind, bool padsAll,
              std::vector<Combination> &result) {
    graph::ShardingRule rule = op.getShardingRule();
    unsigned numOperands = op->getNumOperands();
    // Not used, a factor, partial in one operand, or in all that go together.
    int64_t options = 1 + rule.factors.size() + numOperands + 1;
    int64_t total = 1;
    for (size_t i = 0; i < subAxes.size(); ++i)
      total *= options;
    for (int64_t code = 0; code < total; ++code) {
      int64_t rest = code;
      SmallVector<SmallVector<AxisRef>> factors(rule.factors.size()),
          partial(numOperands);
      for (AxisRef subAxis : subAxes) {
        int64_t choice = rest % options;
        rest /= options;
        if (choice == 0)
          continue;
        if (choice <= static_cast<int64_t>(rule.factors.size()))
          factors[choice - 1].push_back(subAxis);
        else if (choice < options - 1)
          partial[choice - 1 - rule.factors.size()].push_back(subAxis);
        else
          for (unsigned i = 0; i < numOperands; ++i)
            if (rule.getPass(kind, i) == graph::PartialPass::Together)
              partial[i].push_back(subAxis);
      }
      Combination combination;
      auto lay = [&](bool isResult, unsigned number, RankedTensorType type,
                     ArrayRef<AxisRef> partialAxes) {
        SmallVector<DimAttr> dims;
        for (auto [d, dim] : llvm::enumerate(
                 isResult ? rule.results[number] : rule.operands[number])) {
          SmallVector<AxisRef> axes;
          for (int factor : dim)
            llvm::append_range(axes, factors[factor]);
          int64_t size = type.getDimSize(d), blocks = sharding::product(axes);
          bool isHalo = dim.size() == 1 &&
                        rule.factors[dim[0]].kind == graph::FactorKind::Halo;
          int64_t extent = isHalo ? rule.factors[dim[0]].size : size;
          bool isPadded = extent % blocks != 0 || (padsAll && blocks > 1);
          Fill fill = isa<FloatType>(type.getElementType())
                          ? sharding::identityFill(kind)
                          : Fill::Zero;
          if (isHalo) {
            dims.push_back(rule.layDim(
                isResult, number, d, size, mesh, axes,
                extent / blocks * blocks + (isPadded ? blocks : 0), fill));
            continue;
          }
          dims.push_back(DimAttr::get(
              mesh, axes, isPadded ? size / blocks * blocks + blocks : 0,
              isPadded ? fill : Fill::Undefined));
        }
        return LayoutAttr::get(mesh, dims, kind, partialAxes);
      };
      for (unsigned i = 0; i < numOperands; ++i)
        combination.push_back(lay(
            /*isResult=*/false, i,
            cast<RankedTensorType>(op->getOperand(i).getType()), partial[i]));
      auto results = graph::inferResultLayouts(op, combination);
      if (!llvm::all_of(results, [](LayoutAttr layout) { return !!layout; }))
        continue;
      // Factors that only results have take their layout from the builder.
      for (auto [i, layout] : llvm::enumerate(results)) {
        SmallVector<DimAttr> dims(layout.getDims());
        auto type = cast<RankedTensorType>(op->getResult(i).getType());
        LayoutAttr own = lay(/*isResult=*/true, i, type, {});
        for (auto [d, dim] : llvm::enumerate(rule.results[i]))
          if (dim.size() == 1 && rule.isResultOnly(dim[0]))
            dims[d] = DimAttr::get(mesh, own.getDim(d).getAxes(),
                                   own.getDim(d).getPadded());
        layout = LayoutAttr::get(mesh, dims, layout.getPartialKind(),
                                 layout.getPartialAxes());
      }
      result.push_back(combination);
      llvm::append_range(result.back(), results);
      // And with each reduction forgotten.
      if (llvm::none_of(results, [](LayoutAttr layout) {
            return !layout.getPartialAxes().empty();
          }))
        continue;
      for (LayoutAttr layout : results)
        combination.push_back(
            LayoutAttr::get(mesh, layout.getDims(), ReductionKind::Sum, {}));
      result.push_back(combination);
    }
  }

  MLIRContext &context;
  MeshAttr mesh;
  SmallVector<AxisRef> subAxes;
  std::mt19937_64 random;
  OwningOpRef<ModuleOp> module;
  SmallVector<Value> values;
  std::vector<SmallVector<LayoutAttr>> candidates;
  std::vector<SmallVector<Tensor>> inputs, outputs;
  std::string message;
};

class EquivalenceTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false);
    auto name = [&](StringRef text) { return StringAttr::get(&context, text); };
    meshes.push_back({MeshAttr::get(&context, {name("a")}, {2}), {{0, 1, 2}}});
    meshes.push_back(
        {MeshAttr::get(&context, {name("a")}, {4}), {{0, 1, 2}, {0, 2, 2}}});
    meshes.push_back({MeshAttr::get(&context, {name("a"), name("b")}, {2, 2}),
                      {{0, 1, 2}, {1, 1, 2}}});
  }

  MLIRContext context;
  std::vector<std::pair<MeshAttr, SmallVector<AxisRef>>> meshes;
};

} // namespace

TEST_P(EquivalenceTest, TheVerifierAcceptsExactlyWhatDevicesComputeRightly) {
  size_t right = 0, wrong = 0;
  std::map<std::string, size_t> policies;
  // For each flip of one factor's kind: true if some combination contradicts
  // it.
  std::map<std::pair<int, graph::FactorKind>, bool> caught;
  for (auto &[mesh, subAxes] : meshes) {
    Equivalence test(GetParam(), context, mesh, subAxes);
    graph::ShardingRule rule = test.op.getShardingRule();
    std::vector<Coverage::Row> &rows = coverage->getRows(GetParam().name, rule);
    for (const Combination &combination :
         test.combinations(subAxes.size() == 1 ? 1500 : 600)) {
      test.apply(combination);
      bool accepted = test.accepts(rule), computed = test.isRight();
      (computed ? right : wrong) += 1;
      test.record(rows, rule, accepted);
      if (computed && !accepted && !test.policy().empty()) {
        ++policies[test.policy()];
        continue;
      }
      ASSERT_EQ(accepted, computed)
          << (accepted ? "accepted, but wrong: " : "right, but rejected: ")
          << test.describe();
      // A flip is visible if a layout splits the factor (a closed one: if one
      // tries to). On 4 devices not every minor factor can be split.
      for (int f : test.splitFactors(rule))
        for (graph::FactorKind kind :
             {graph::FactorKind::Parallel, graph::FactorKind::Reduction,
              graph::FactorKind::Replicated}) {
          // Without borders a halo factor differs in its blocks' ratio alone.
          bool hasBorders = rule.factors[f].kind == graph::FactorKind::Halo &&
                            llvm::any_of(rule.borders, [](const auto &entry) {
                              return entry.second.low || entry.second.high;
                            });
          if (isClosed(kind) == isClosed(rule.factors[f].kind) && !hasBorders)
            continue;
          if (!computed && !isClosed(rule.factors[f].kind))
            continue;
          graph::ShardingRule flipped = rule;
          flipped.factors[f].kind = kind;
          caught[{f, kind}] |= test.accepts(flipped) != computed;
        }
    }
  }
  for (auto &[flip, isCaught] : caught)
    EXPECT_TRUE(isCaught) << "factor " << flip.first << " of "
                          << GetParam().name << " taken as "
                          << graph::stringify(flip.second).str()
                          << " is not noticed";
  EXPECT_GT(right, 0u);
  EXPECT_GT(wrong, 0u);
  std::printf("%-18s %6zu right, %6zu wrong", GetParam().name, right, wrong);
  for (auto &[policy, count] : policies)
    std::printf(", %zu by policy: %s", count, policy.c_str());
  std::printf("\n");
}

TEST_P(EquivalenceTest, FactorKindsAreAsTheTableSays) {
  Equivalence test(GetParam(), context, meshes[0].first, meshes[0].second);
  std::string kinds;
  for (const graph::Factor &factor : test.op.getShardingRule().factors)
    kinds += factor.kind == graph::FactorKind::Replicated
                 ? 'x'
                 : graph::stringify(factor.kind)[0];
  EXPECT_EQ(kinds, GetParam().kinds);
}

INSTANTIATE_TEST_SUITE_P(EveryOp, EquivalenceTest, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });
