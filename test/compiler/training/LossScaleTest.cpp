// Loss scales change no bit, a skipped step changes nothing but its number, and
// a dynamic scale follows its rules.

#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "test/compiler/training/TestModule.h"

#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <random>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

/// A loss whose gradients with respect to a matrix and a vector are inputs.
constexpr const char *model = R"(
  graph.parameter @w : tensor<3x4xf32> at "m.onnx" offset 0 length 48 {trainable}
  graph.parameter @v : tensor<5xf32> at "m.onnx" offset 48 length 20 {trainable}
  graph.parameter @seen : tensor<5xf32> at "m.onnx" offset 68 length 20
  func.func @forward(%g: tensor<1x3x4xf32> {graph.role = #graph.input<"g">}, %h: tensor<1x5xf32> {graph.role = #graph.input<"h">},
                     %w: tensor<3x4xf32> {graph.role = #graph.parameter<@w>}, %v: tensor<5xf32> {graph.role = #graph.parameter<@v>},
                     %seen: tensor<5xf32> {graph.role = #graph.parameter<@seen>})
      -> (tensor<f32> {graph.role = #graph.output<"loss">}, tensor<5xf32> {graph.role = #graph.next<4>}) {
    %a = graph.reshape %g : (tensor<1x3x4xf32>) -> tensor<3x4xf32>
    %b = graph.reshape %h : (tensor<1x5xf32>) -> tensor<5xf32>
    %c = graph.mul %a, %w : tensor<3x4xf32>
    %d = graph.mul %b, %v : tensor<5xf32>
    %e = graph.reduce sum %c over [0, 1] : (tensor<3x4xf32>) -> tensor<f32>
    %f = graph.reduce sum %d over [0] : (tensor<5xf32>) -> tensor<f32>
    %l = graph.add %e, %f : tensor<f32>
    %n = graph.add %seen, %b : tensor<5xf32>
    return %l, %n : tensor<f32>, tensor<5xf32>
  }
)";

using Values = std::map<std::string, std::vector<double>>;

struct Options {
  std::string optimizer = "adamw(lr=0.1)", scale;
  bool skips = false;
  int64_t microbatches = 1;
  double clipNorm = 0, clipValue = 0, ema = 0;
  const char *normType = "2";
};

/// A training that is evaluated step by step in f32.
class Training {
public:
  Training(MLIRContext &context, ModuleOp module)
      : step(module.lookupSymbol<func::FuncOp>("step")), boundary(step),
        arguments(evaluate::randomArguments(step, 5)) {
    for (unsigned i = 0; i < step.getNumArguments(); ++i) {
      if (cast<RankedTensorType>(step.getArgument(i).getType())
              .getElementType()
              .isF32())
        for (double &value : arguments[i].floats)
          value = static_cast<float>(value);
      if (auto state = boundary.getArgument<graph::StateAttr>(i)) {
        double init = state.getInit() ? state.getInit().getValueAsDouble() : 0;
        llvm::fill(arguments[i].floats, init);
        llvm::fill(arguments[i].integers, static_cast<int64_t>(init));
      }
    }
  }

  std::vector<double> &input(StringRef name) {
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (auto each = boundary.getArgument<graph::InputAttr>(i);
          each && each.getName() == name)
        return arguments[i].floats;
    llvm::report_fatal_error("there is no such input");
  }

  /// Draws the gradients of the step with this number, so that every training
  /// has the same.
  void draw(int number) {
    std::mt19937 random(number + 1);
    std::normal_distribution<float> normal;
    for (const char *name : {"g", "h"})
      for (double &value : input(name))
        value = normal(random);
  }

  /// Runs a step. Returns its outputs.
  Values run() {
    auto results =
        evaluate::evaluateGlobal(step, arguments, graph::Rounding::OfTypes);
    EXPECT_TRUE(succeeded(results));
    Values outputs;
    for (auto [i, result] : llvm::enumerate(*results)) {
      if (auto replaced = boundary.getReplaced(i))
        arguments[*replaced] = result;
      else
        outputs[boundary.getResult<graph::OutputAttr>(i).getName().str()] =
            numbersOf(result);
    }
    return outputs;
  }

  /// The parameters and states by their names.
  Values kept() {
    Values values;
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (boundary.isKept(i))
        values[boundary.getName(i)] = numbersOf(arguments[i]);
    return values;
  }

  void set(const std::string &name, double value) {
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (boundary.isKept(i) && boundary.getName(i) == name)
        llvm::fill(arguments[i].floats, value);
  }

private:
  static std::vector<double> numbersOf(const Tensor &tensor) {
    std::vector<double> numbers(tensor.floats.begin(), tensor.floats.end());
    numbers.insert(numbers.end(), tensor.integers.begin(),
                   tensor.integers.end());
    return numbers;
  }

  func::FuncOp step;
  graph::Boundary boundary;
  SmallVector<Tensor> arguments;
};

/// The states of loss scaling, which a plain training does not have.
constexpr const char *ownStates[] = {"updates", "skipped_steps", "loss_scale",
                                     "updates_in_a_row", "not_finite"};

Values withoutOwn(Values values) {
  for (const char *name : ownStates)
    values.erase(name);
  return values;
}

class LossScaleTest : public TrainingTest {
protected:
  std::string build(ModuleOp module, const Options &given) {
    std::string error = run(module, createAttachLossPass({"output(loss)", {}}));
    BuildStepPassOptions options;
    options.optimizer = given.optimizer;
    options.microbatches = given.microbatches;
    options.clipNorm = given.clipNorm;
    options.clipNormType = given.normType;
    options.clipValue = given.clipValue;
    options.ema = given.ema;
    options.lossScale = given.scale;
    options.skipNonfinite = given.skips;
    return error.empty() ? run(module, createBuildStepPass(options)) : error;
  }

  Training train(const Options &options) {
    modules.push_back(parse(model));
    EXPECT_EQ(build(*modules.back(), options), "");
    return Training(context, *modules.back());
  }

  std::vector<OwningOpRef<ModuleOp>> modules;
};

constexpr const char *optimizers[] = {
    "sgd(lr=0.1)",
    "sgd(lr=0.1,momentum=0.9,dampening=0.5)",
    "adam(lr=0.1,amsgrad=true)",
    "adamw(lr=0.1)",
    "adagrad(lr=0.1,lr_decay=0.5,initial_accumulator_value=0.25)",
    "rmsprop(lr=0.1,momentum=0.5,centered=true)",
    "adafactor(lr=0.1)",
    "lamb(lr=0.1)",
    "lion(lr=0.1)",
    "muon(lr=0.1)"};

} // namespace

TEST_F(LossScaleTest, AnyScaleGivesTheBitsOfNone) {
  for (const char *optimizer : optimizers)
    for (int64_t microbatches : {1, 3})
      for (int clip = 0; clip < 4; ++clip) {
        Options options;
        options.optimizer = optimizer;
        options.microbatches = microbatches;
        options.ema = 0.5;
        options.clipNorm = clip == 1 ? 1 : clip == 2 ? 0.5 : 0;
        options.normType = clip == 2 ? "inf" : "2";
        options.clipValue = clip == 3 ? 0.25 : 0;
        Training plain = train(options);
        std::vector<Values> outputs;
        for (int step = 0; step < 3; ++step) {
          plain.draw(step);
          outputs.push_back(plain.run());
        }
        for (auto [scale, skips] : {std::pair("1024", false),
                                    {"9.5367431640625e-07", true},
                                    {"", true},
                                    {"dynamic(init=4,window=1)", false}}) {
          options.scale = scale;
          options.skips = skips;
          Training scaled = train(options);
          for (int step = 0; step < 3; ++step) {
            scaled.draw(step);
            Values values = scaled.run();
            for (auto &[name, value] : outputs[step])
              EXPECT_EQ(values[name], value) << optimizer << " " << name;
          }
          EXPECT_EQ(withoutOwn(scaled.kept()), plain.kept())
              << optimizer << ", clip " << clip << ", scale " << scale;
        }
      }
}

/// Also the number of updates, on which Adam's correction, Adagrad's rate,
/// Adafactor's decay and the first moving mean depend, is that of a training
/// without the step.
TEST_F(LossScaleTest, ASkippedStepIsAsIfItHadNeverBeen) {
  for (const char *optimizer : optimizers)
    for (double bad : {double(INFINITY), -double(INFINITY), double(NAN)})
      for (int first : {0, 1, 2})
        for (int clip = 0; clip < 3; ++clip) {
          Options options;
          options.optimizer = optimizer;
          options.ema = 0.5;
          options.microbatches = 2;
          options.clipNorm = clip == 0 ? 0 : 1;
          options.normType = clip == 2 ? "inf" : "2";
          Training plain = train(options);
          options.scale = first == 1 ? "dynamic" : "";
          options.skips = first != 1;
          Training skipping = train(options);
          for (int step = 0; step < 4; ++step) {
            skipping.draw(step);
            if (step == first) {
              Values before = skipping.kept();
              // In one element, of one microbatch.
              skipping.input(clip == 1 ? "h" : "g")[3] = bad;
              EXPECT_EQ(skipping.run()["skipped"][0], 1);
              Values after = skipping.kept();
              EXPECT_EQ(after["step"][0], before["step"][0] + 1);
              EXPECT_EQ(after["updates"], before["updates"]);
              continue;
            }
            EXPECT_EQ(skipping.run()["skipped"][0], 0);
            plain.draw(step);
            plain.run();
          }
          Values with = withoutOwn(skipping.kept()), without = plain.kept();
          EXPECT_EQ(with["step"][0], 4);
          EXPECT_EQ(without["step"][0], 3);
          with.erase("step"), without.erase("step");
          EXPECT_EQ(with, without) << optimizer << ", step " << first;
        }
}

namespace {
/// The rules of Megatron-LM's DynamicGradScaler, with DeepSpeed's end at the
/// smallest scale.
struct Rules {
  double scale, growth, backoff, min;
  int window, hysteresis;
  int inARow = 0, left = hysteresis;

  /// Returns what becomes of the step.
  int update(bool isFinite) {
    if (isFinite) {
      if (++inARow == window) {
        inARow = 0;
        left = hysteresis;
        scale = std::min(scale * growth, 0x1p126);
      }
      return 0;
    }
    inARow = 0;
    if (--left > 0)
      return 1;
    if (scale == min)
      return 2;
    scale = std::max(scale * backoff, min);
    return 1;
  }
};
} // namespace

TEST_F(LossScaleTest, ADynamicScaleFollowsItsRules) {
  std::mt19937 random(11);
  int stuck = 0, grown = 0, lowered = 0;
  for (const Rules &given :
       {Rules{65536, 2, 0.5, 1, 2000, 1}, Rules{8, 2, 0.5, 1, 2, 1},
        Rules{8, 4, 0.25, 0.5, 3, 2}, Rules{4, 2, 0.5, 2, 1, 3},
        Rules{2, 2, 0.5, 2, 4, 1}, Rules{2, 2, 0.5, 2, 4, 2},
        Rules{8, 2, 0.25, 1, 5, 1}})
    for (int share : {10, 50, 80}) {
      Rules rules = given;
      Options options;
      llvm::raw_string_ostream(options.scale)
          << llvm::formatv("dynamic(init={0:E},growth={1:f},backoff={2:f},"
                           "min={3:f},window={4},hysteresis={5})",
                           rules.scale, rules.growth, rules.backoff, rules.min,
                           rules.window, rules.hysteresis);
      Training training = train(options);
      double total = 0;
      for (int step = 0; step < 40; ++step) {
        training.draw(step);
        bool isFinite = int(random() % 100) >= share;
        if (!isFinite)
          training.input("h")[1] = INFINITY;
        double scale = rules.scale;
        int outcome = rules.update(isFinite);
        Values before = training.kept(), outputs = training.run();
        total += outcome != 0;
        ASSERT_EQ(outputs["loss_scale"][0], scale) << options.scale;
        ASSERT_EQ(outputs["skipped"][0], outcome) << options.scale;
        ASSERT_EQ(outputs["skipped_total"][0], total);
        grown += rules.scale > scale;
        lowered += rules.scale < scale;
        if (outcome == 2) {
          // The element whose gradient is not finite is marked, and no other.
          Values after = training.kept();
          EXPECT_TRUE(std::isnan(after["v"][1]));
          after["v"][1] = before["v"][1];
          for (const char *name : {"w", "v", "seen", "v.exp_avg"})
            EXPECT_EQ(after[name], before[name]);
          ++stuck;
          break;
        }
      }
    }
  EXPECT_GT(stuck, 3);
  EXPECT_GT(grown, 20);
  EXPECT_GT(lowered, 20);
}

/// With 2^127 the inverse would be denormal, and zero on processors that flush
/// those.
TEST_F(LossScaleTest, AScaleGrowsToTheLargestWhoseInverseIsNormal) {
  Options options;
  options.scale = "dynamic(growth=4,window=1)";
  Training training = train(options);
  training.set("loss_scale", 0x1p125);
  for (const char *name : {"g", "h"})
    llvm::fill(training.input(name), 0x1p-40);
  training.run();
  EXPECT_EQ(training.kept()["loss_scale"][0], 0x1p126);
  training.run();
  EXPECT_EQ(training.kept()["loss_scale"][0], 0x1p126);
}
