// What raise-composites makes of attention in parts has the values of the
// parts, and their gradients, also where queries see nothing.

#include <cmath>
#include <fstream>
#include <sstream>

#include "compiler/training/Passes.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

/// Exports hold factors as f32.
constexpr double constantTolerance = 5e-7;

/// The functions of lit's tests, whose texts say which ops come out.
std::vector<std::string> readCases(const std::string &name) {
  std::ifstream file(POLYRANK_TRAINING_TESTS "/" + name);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  std::vector<std::string> cases;
  constexpr llvm::StringLiteral separator = "\n// -----\n";
  for (llvm::StringRef rest = text; !rest.empty();) {
    auto [first, others] = rest.split(separator);
    cases.push_back(first.str());
    rest = others;
  }
  return cases;
}

class RaiseAttention : public TrainingTest,
                       public ::testing::WithParamInterface<const char *> {
protected:
  /// Returns true if no number of the tensors is undefined.
  static bool isDefined(ArrayRef<Tensor> tensors) {
    return llvm::all_of(tensors, [](const Tensor &tensor) {
      return llvm::none_of(tensor.floats,
                           [](double x) { return std::isnan(x); });
    });
  }

  /// Multiplies the result with numbers that differ, and sums it.
  static void addWeights(func::FuncOp function) {
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    Value result = terminator->getOperand(0);
    auto type = cast<RankedTensorType>(result.getType());
    Tensor weights(type);
    for (auto [i, weight] : llvm::enumerate(weights.floats))
      weight = std::sin(static_cast<double>(i + 1));
    Location location = builder.getUnknownLoc();
    Value product = graph::MulOp::create(
        builder, location, result,
        graph::ConstantOp::create(builder, location, weights.toAttribute()));
    SmallVector<int64_t> dims =
        llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    Value sum = graph::ReduceOp::create(
        builder, location, RankedTensorType::get({}, type.getElementType()),
        sharding::ReductionKind::Sum, product, dims);
    returnValues(function, sum);
  }
};

} // namespace

TEST_P(RaiseAttention, KeepsValuesAndGradients) {
  int64_t compared = 0;
  for (const std::string &text : readCases(GetParam())) {
    SCOPED_TRACE(text);
    auto parts = parse(text);
    ASSERT_TRUE(parts);
    addWeights(function(*parts));
    OwningOpRef<ModuleOp> raised(parts->clone());
    ASSERT_EQ(run(*raised, createRaiseCompositesPass()), "");
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SmallVector<Tensor> arguments =
          evaluate::randomArguments(function(*parts), seed);
      // Masks that hide a sample's keys, then all keys.
      for (Tensor &argument : arguments)
        if (argument.elementType.isInteger(1) && seed < 2)
          std::fill(argument.integers.begin(),
                    seed == 0 ? argument.integers.end()
                              : argument.integers.begin() + argument.size() / 2,
                    0);
      expectEqual(evaluate(function(*raised), arguments),
                  evaluate(function(*parts), arguments), constantTolerance);
      OwningOpRef<ModuleOp> backward(parts->clone()),
          raisedBackward(raised->clone());
      differentiate(function(*backward));
      differentiate(function(*raisedBackward));
      SmallVector<Tensor> expected = evaluate(function(*backward), arguments);
      // The parts have no gradient where a score of minus infinity makes
      // probabilities that are no numbers, though these are zeroed.
      if (!isDefined(expected))
        continue;
      expectEqual(evaluate(function(*raisedBackward), arguments), expected,
                  constantTolerance);
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

INSTANTIATE_TEST_SUITE_P(Files, RaiseAttention,
                         ::testing::Values("raise-attention.mlir",
                                           "raise-attention-terms.mlir"),
                         [](const auto &info) {
                           return info.index == 0 ? std::string("Products")
                                                  : std::string("Terms");
                         });
