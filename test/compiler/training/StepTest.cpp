// @step: optimizers against PyTorch's formulas, microbatches, losses, errors.

#include "compiler/training/Call.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

/// A linear layer with a bias whose name asks for no decay. In f64, so that an
/// optimizer's constants are not rounded.
constexpr const char *linear = R"(
  graph.parameter @fc.weight : tensor<3x4xf64> at "m.onnx" offset 0 length 96 {trainable}
  graph.parameter @fc.bias : tensor<3xf64> at "m.onnx" offset 96 length 24 {trainable}
  graph.parameter @frozen : tensor<3xf64> at "m.onnx" offset 120 length 24
  func.func @forward(%x: tensor<BATCHx4xf64> {graph.role = #graph.input<"x">}, %w: tensor<3x4xf64> {graph.role = #graph.parameter<@fc.weight>},
                     %b: tensor<3xf64> {graph.role = #graph.parameter<@fc.bias>}, %f: tensor<3xf64> {graph.role = #graph.parameter<@frozen>})
      -> (tensor<BATCHx3xf64> {graph.role = #graph.output<"logits">}) {
    %h = graph.matmul %x, %w batch [] x [] contract [1] x [1] : (tensor<BATCHx4xf64>, tensor<3x4xf64>) -> tensor<BATCHx3xf64>
    %s = graph.add %b, %f : tensor<3xf64>
    %c = graph.broadcast %s {dims = array<i64: 1>} : (tensor<3xf64>) -> tensor<BATCHx3xf64>
    %y = graph.add %h, %c : tensor<BATCHx3xf64>
    return %y : tensor<BATCHx3xf64>
  }
)";

std::string linearOf(int64_t batch) {
  std::string text = linear;
  for (size_t at; (at = text.find("BATCH")) != std::string::npos;)
    text.replace(at, 5, std::to_string(batch));
  return text;
}

std::unique_ptr<Pass> buildStepOf(StringRef mode, StringRef optimizer,
                                  int64_t microbatches) {
  BuildStepPassOptions options;
  options.mode = mode;
  options.optimizer = optimizer;
  options.microbatches = microbatches;
  return createBuildStepPass(options);
}

void has(const std::string &text, StringRef part) {
  EXPECT_TRUE(StringRef(text).contains(part)) << text;
}

class StepTest : public TrainingTest {
protected:
  OwningOpRef<ModuleOp> buildStep(int64_t batch, StringRef loss,
                                  StringRef optimizer, int64_t microbatches) {
    auto module = parse(linearOf(batch));
    EXPECT_EQ(run(*module, createAttachLossPass({loss.str(), {}})), "");
    EXPECT_EQ(run(*module, buildStepOf("train", optimizer, microbatches)), "");
    return module;
  }

  std::string errorOf(StringRef loss, StringRef optimizer = "sgd") {
    auto module = parse(linearOf(2));
    std::string error = run(*module, createAttachLossPass({loss.str(), {}}));
    if (error.empty())
      error = run(*module, buildStepOf("train", optimizer, 1));
    return error;
  }
};

/// One element's history under PyTorch's SGD, Adam and AdamW.
struct Reference {
  double parameter;
  double first = 0, second = 0, largest = 0;
  int64_t step = 0;
};

double decayed(double gradient, const Reference &each, double decay) {
  return gradient + decay * each.parameter;
}

void sgd(Reference &each, double gradient, double lr, double momentum,
         double dampening, double decay, bool nesterov) {
  gradient = decayed(gradient, each, decay);
  if (momentum != 0) {
    each.first = each.step == 0
                     ? gradient
                     : momentum * each.first + (1 - dampening) * gradient;
    gradient = nesterov ? gradient + momentum * each.first : each.first;
  }
  ++each.step;
  each.parameter -= lr * gradient;
}

void adam(Reference &each, double gradient, double lr, double beta1,
          double beta2, double epsilon, double decay, bool decoupled,
          bool amsgrad = false) {
  ++each.step;
  if (decoupled)
    each.parameter *= 1 - lr * decay;
  else
    gradient = decayed(gradient, each, decay);
  each.first = beta1 * each.first + (1 - beta1) * gradient;
  each.second = beta2 * each.second + (1 - beta2) * gradient * gradient;
  each.largest = std::max(each.largest, each.second);
  double root = std::sqrt(amsgrad ? each.largest : each.second) /
                std::sqrt(1 - std::pow(beta2, each.step));
  each.parameter -=
      lr / (1 - std::pow(beta1, each.step)) * each.first / (root + epsilon);
}

void adagrad(Reference &each, double gradient, double lr, double rateDecay,
             double first, double epsilon) {
  if (each.step == 0)
    each.second = first;
  each.second += gradient * gradient;
  each.parameter -= lr / (1 + each.step * rateDecay) * gradient /
                    (std::sqrt(each.second) + epsilon);
  ++each.step;
}

/// `largest` is the mean, `first` the momentum.
void rmsprop(Reference &each, double gradient, double lr, double alpha,
             double epsilon, double momentum, bool centered) {
  each.second = alpha * each.second + (1 - alpha) * gradient * gradient;
  each.largest = alpha * each.largest + (1 - alpha) * gradient;
  double mean = centered ? each.largest : 0;
  double step = gradient / (std::sqrt(each.second - mean * mean) + epsilon);
  each.first = momentum * each.first + step;
  each.parameter -= lr * (momentum != 0 ? each.first : step);
}

void lion(Reference &each, double gradient, double lr, double beta1,
          double beta2, double decay) {
  double mean = beta1 * each.first + (1 - beta1) * gradient;
  each.first = beta2 * each.first + (1 - beta2) * gradient;
  each.parameter -= lr * ((mean > 0) - (mean < 0) + decay * each.parameter);
}

struct OptimizerCase {
  const char *text;
  unsigned states;
  void (*update)(Reference &, double gradient, bool isBias);
};
void PrintTo(const OptimizerCase &each, std::ostream *out) {
  *out << each.text;
}

class OptimizerTest : public StepTest,
                      public ::testing::WithParamInterface<OptimizerCase> {};

} // namespace

// The gradient of mse with respect to the bias is 2 * mean over the batch of
// (y - t) / 3, and that of w is its product with x.
TEST_P(OptimizerTest, ComputesWhatPyTorchDoes) {
  auto module = buildStep(5, "mse(logits,target)", GetParam().text, 1);
  func::FuncOp step = function(*module, "step");
  ASSERT_TRUE(step);
  SmallVector<Tensor> arguments = evaluate::randomArguments(step, 11);
  // Parameters, states per parameter, step, seed, learning rate, inputs.
  unsigned states = GetParam().states, inputs = 3 + 2 * states + 3;
  ASSERT_EQ(arguments.size(), inputs + 2);
  std::vector<Reference> weights, biases;
  for (double value : arguments[0].floats)
    weights.push_back({value});
  for (double value : arguments[1].floats)
    biases.push_back({value});
  for (int64_t t = 0; t < 4; ++t) {
    const auto &x = arguments[inputs].floats;
    const auto &target = arguments[inputs + 1].floats;
    std::vector<double> dw(12), db(3);
    for (int row = 0; row < 5; ++row)
      for (int out = 0; out < 3; ++out) {
        double y = biases[out].parameter + arguments[2].floats[out];
        for (int in = 0; in < 4; ++in)
          y += weights[out * 4 + in].parameter * x[row * 4 + in];
        double slope = 2 * (y - target[row * 3 + out]) / 15;
        db[out] += slope;
        for (int in = 0; in < 4; ++in)
          dw[out * 4 + in] += slope * x[row * 4 + in];
      }
    for (int i = 0; i < 12; ++i)
      GetParam().update(weights[i], dw[i], false);
    for (int i = 0; i < 3; ++i)
      GetParam().update(biases[i], db[i], true);

    SmallVector<Tensor> results = evaluate(step, arguments);
    ASSERT_EQ(results.size(), 3 + 2 * states + 1 + 2);
    for (unsigned i = 0; i < 3 + 2 * states + 1; ++i)
      arguments[i] = results[i];
    for (int i = 0; i < 12; ++i)
      EXPECT_NEAR(arguments[0].floats[i], weights[i].parameter, 1e-12);
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(arguments[1].floats[i], biases[i].parameter, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerTest,
    ::testing::Values(
        OptimizerCase{"sgd(lr=0.1)", 0,
                      [](Reference &each, double gradient, bool) {
                        sgd(each, gradient, 0.1, 0, 0, 0, false);
                      }},
        OptimizerCase{
            "sgd(lr=0.1,momentum=0.9,dampening=0.25,weight_decay=0.5)", 1,
            [](Reference &each, double gradient, bool) {
              sgd(each, gradient, 0.1, 0.9, 0.25, 0.5, false);
            }},
        OptimizerCase{"sgd(lr=0.1,momentum=0.5,nesterov=true)", 1,
                      [](Reference &each, double gradient, bool) {
                        sgd(each, gradient, 0.1, 0.5, 0, 0, true);
                      }},
        // PyTorch's defaults: the first decays nothing, the second a hundredth.
        OptimizerCase{"adam(lr=0.05)", 2,
                      [](Reference &each, double gradient, bool) {
                        adam(each, gradient, 0.05, 0.9, 0.999, 1e-8, 0, false);
                      }},
        OptimizerCase{"adamw(lr=0.05)", 2,
                      [](Reference &each, double gradient, bool) {
                        adam(each, gradient, 0.05, 0.9, 0.999, 1e-8, 0.01,
                             true);
                      }},
        // In PyTorch's notation.
        OptimizerCase{"torch.optim.SGD(model.parameters(), 0.1, 0.5, nesterov, "
                      "foreach=None)",
                      1,
                      [](Reference &each, double gradient, bool) {
                        sgd(each, gradient, 0.1, 0.5, 0, 0, true);
                      }},
        OptimizerCase{"SGD(lr=0.1, weight_decay=0.5, maximize=True)", 0,
                      [](Reference &each, double gradient, bool) {
                        sgd(each, -gradient, 0.1, 0, 0, 0.5, false);
                      }},
        OptimizerCase{"optim.AdamW(0.05, [0.8, 0.9], 1e-4, 0.25)", 2,
                      [](Reference &each, double gradient, bool) {
                        adam(each, gradient, 0.05, 0.8, 0.9, 1e-4, 0.25, true);
                      }},
        OptimizerCase{"adam(lr=0.05,betas=(0.8,0.5),amsgrad)", 3,
                      [](Reference &each, double gradient, bool) {
                        adam(each, gradient, 0.05, 0.8, 0.5, 1e-8, 0, false,
                             true);
                      }},
        OptimizerCase{"adam(lr=0.05,betas=0.8:0.9,weight_decay=0.25)", 2,
                      [](Reference &each, double gradient, bool) {
                        adam(each, gradient, 0.05, 0.8, 0.9, 1e-8, 0.25, false);
                      }},
        OptimizerCase{"adamw(lr=0.05,eps=1e-4,weight_decay=0.5,decay=*.weight)",
                      2,
                      [](Reference &each, double gradient, bool isBias) {
                        adam(each, gradient, 0.05, 0.9, 0.999, 1e-4,
                             isBias ? 0 : 0.5, true);
                      }},
        OptimizerCase{"adagrad", 1,
                      [](Reference &each, double gradient, bool) {
                        adagrad(each, gradient, 0.01, 0, 0, 1e-10);
                      }},
        OptimizerCase{"Adagrad(0.1, 0.5, 0.25, 0.125, 1e-4)", 1,
                      [](Reference &each, double gradient, bool) {
                        adagrad(each, decayed(gradient, each, 0.25), 0.1, 0.5,
                                0.125, 1e-4);
                      }},
        OptimizerCase{"rmsprop", 1,
                      [](Reference &each, double gradient, bool) {
                        rmsprop(each, gradient, 0.01, 0.99, 1e-8, 0, false);
                      }},
        OptimizerCase{"RMSprop(0.1, 0.8, 1e-4, 0.25, 0.5)", 2,
                      [](Reference &each, double gradient, bool) {
                        rmsprop(each, decayed(gradient, each, 0.25), 0.1, 0.8,
                                1e-4, 0.5, false);
                      }},
        OptimizerCase{"rmsprop(lr=0.1,alpha=0.8,momentum=0.5,centered)", 3,
                      [](Reference &each, double gradient, bool) {
                        rmsprop(each, gradient, 0.1, 0.8, 1e-8, 0.5, true);
                      }},
        OptimizerCase{"rmsprop(lr=0.1,alpha=0.8,centered=True,maximize)", 2,
                      [](Reference &each, double gradient, bool) {
                        rmsprop(each, -gradient, 0.1, 0.8, 1e-8, 0, true);
                      }},
        OptimizerCase{"lion", 1,
                      [](Reference &each, double gradient, bool) {
                        lion(each, gradient, 1e-4, 0.9, 0.99, 0);
                      }},
        OptimizerCase{"lion(0.1,(0.5,0.8),0.25)", 1,
                      [](Reference &each, double gradient, bool) {
                        lion(each, gradient, 0.1, 0.5, 0.8, 0.25);
                      }}),
    [](const auto &info) { return "case" + std::to_string(info.index); });

TEST_F(StepTest, FourMicrobatchesAreOneLargeBatch) {
  for (StringRef loss :
       {"cross_entropy(logits,labels,ignore_index=1)", "mse(logits,target)",
        "cross_entropy(logits,labels,weight=1:2:5,label_smoothing=0.2)"}) {
    auto many = buildStep(2, loss, "adamw", 4);
    auto one = buildStep(8, loss, "adamw", 1);
    SmallVector<Tensor> arguments =
        evaluate::randomArguments(function(*many, "step"), 2);
    SmallVector<Tensor> expected = evaluate(function(*many, "step"), arguments);
    for (BlockArgument argument : function(*one, "step").getArguments()) {
      Tensor &value = arguments[argument.getArgNumber()];
      value =
          value.reshaped(cast<RankedTensorType>(argument.getType()).getShape());
    }
    expectEqual(evaluate(function(*one, "step"), arguments), expected);
  }
}

/// Numbers and signs that do not separate terms.
TEST_F(StepTest, TermsOfALossHaveTheirWeights) {
  for (auto [text, weights] :
       {std::pair<StringRef, std::vector<double>>("mse(a-b,t)", {1}),
        {"2*mse(a,t)/4", {0.5}},
        {" - 1e-3 * mse(a,t) + mse(b,t)*-1E+2", {-1e-3, -100}},
        {"mse(a,t)-2*cross_entropy(b,y,ignore_index=-1)+.5*output(c)",
         {1, -2, 0.5}}}) {
    auto terms = parseSum(
        text, [&] { return mlir::emitError(UnknownLoc::get(&context)); });
    ASSERT_TRUE(succeeded(terms)) << text.str();
    std::vector<double> found;
    for (const WeightedCall &term : *terms)
      found.push_back(term.weight);
    EXPECT_EQ(found, weights) << text.str();
  }
}

TEST_F(StepTest, LossIsTheMeanOverTargetsThatCount) {
  auto module =
      buildStep(2, "cross_entropy(logits,labels,ignore_index=0)", "sgd", 2);
  func::FuncOp step = function(*module, "step");
  SmallVector<Tensor> arguments = evaluate::randomArguments(step, 4);
  arguments.back().integers = {0, 2, 0, 0};
  for (unsigned i : {0, 1, 2}) // equal logits
    llvm::fill(arguments[i].floats, 0);
  SmallVector<Tensor> results = evaluate(step, arguments);
  EXPECT_NEAR(results[results.size() - 2].floats[0], std::log(3.0), 1e-12);
  EXPECT_EQ(results.back().floats[0], 1);
}

/// @step of two microbatches of two samples with loss = sum(w x) / DIVISOR.
constexpr const char *quotient = R"(
  graph.parameter @w : tensor<2xf64> at "m.onnx" offset 0 length 16 {trainable}
  func.func @forward(%x: tensor<2xf64> {graph.role = #graph.input<"x">}, %n: tensor<2xi64> {graph.role = #graph.input<"n">},
                     %w: tensor<2xf64> {graph.role = #graph.parameter<@w>}) -> (tensor<f64> {graph.role = #graph.output<"loss">}) {
    %p = graph.mul %x, %w : tensor<2xf64>
    %s = graph.reduce sum %p over [0] : (tensor<2xf64>) -> tensor<f64>
    %f = graph.convert %n : (tensor<2xi64>) -> tensor<2xf64>
    %d = graph.reduce sum DIVISOR over [0] : (tensor<2xf64>) -> tensor<f64>
    %l = graph.div %s, %d : tensor<f64>
    return %l : tensor<f64>
  }
)";

/// Losses 1 + 2 by 1 and 4 + 5 by 3.
TEST_F(StepTest, AModelsOwnLossIsASumOverACountWhereInputsAloneCount) {
  for (auto [divisor, loss, gradient] :
       {std::tuple("%f", (3. + 9.) / 4, std::vector<double>{5. / 4, 7. / 4}),
        // A mask may be of floats.
        {"%x", 1., {5. / 12, 7. / 12}},
        // A trained divisor is no count: the loss is the mean of both
        // quotients.
        {"%p", 1., {0, 0}}}) {
    std::string text = quotient;
    text.replace(text.find("DIVISOR"), 7, divisor);
    auto module = parse(text);
    ASSERT_EQ(run(*module, createAttachLossPass({"output(loss)", {}})), "");
    ASSERT_EQ(run(*module, buildStepOf("train", "sgd(lr=1)", 2)), "");
    func::FuncOp step = function(*module, "step");
    SmallVector<Tensor> arguments = evaluate::randomArguments(step, 4);
    arguments[0].floats = {1, 1};
    arguments[arguments.size() - 2].floats = {1, 2, 4, 5};
    arguments.back().integers = {1, 0, 1, 2};
    SmallVector<Tensor> results = evaluate(step, arguments);
    EXPECT_NEAR(results[results.size() - 2].floats[0], loss, 1e-12);
    for (int i : {0, 1})
      EXPECT_NEAR(1 - results[0].floats[i], gradient[i], 1e-12) << divisor;
  }
}

/// Ignored targets are multiplied by 0, and infinity times 0 would be NaN.
TEST_F(StepTest, ATermWithoutTargetsGivesNoGradient) {
  for (int64_t microbatches : {1, 2}) {
    auto module = parse(R"(
      graph.parameter @w : tensor<2xf64> at "m.onnx" offset 0 length 16 {trainable}
      func.func @forward(%x: tensor<2xf64> {graph.role = #graph.input<"x">}, %n: tensor<2xi64> {graph.role = #graph.input<"n">},
                         %w: tensor<2xf64> {graph.role = #graph.parameter<@w>})
          -> (tensor<f64> {graph.role = #graph.output<"a">}, tensor<f64> {graph.role = #graph.output<"b">}) {
        %p = graph.mul %x, %w : tensor<2xf64>
        %f = graph.convert %n : (tensor<2xi64>) -> tensor<2xf64>
        %q = graph.mul %p, %f : tensor<2xf64>
        %s = graph.reduce sum %q over [0] : (tensor<2xf64>) -> tensor<f64>
        %d = graph.reduce sum %f over [0] : (tensor<2xf64>) -> tensor<f64>
        %a = graph.div %s, %d : tensor<f64>
        %b = graph.reduce sum %p over [0] : (tensor<2xf64>) -> tensor<f64>
        return %a, %b : tensor<f64>, tensor<f64>
      })");
    ASSERT_EQ(run(*module, createAttachLossPass({"output(a)+3*output(b)", {}})),
              "");
    ASSERT_EQ(run(*module, buildStepOf("train", "sgd(lr=1)", microbatches)),
              "");
    func::FuncOp step = function(*module, "step");
    SmallVector<Tensor> arguments = evaluate::randomArguments(step, 4);
    arguments[0].floats = {0, 0};
    llvm::fill(arguments[arguments.size() - 2].floats, 5);
    llvm::fill(arguments.back().integers, 0);
    SmallVector<Tensor> results = evaluate(step, arguments);
    EXPECT_EQ(results[0].floats[0], -15);
    EXPECT_EQ(results[0].floats[1], -15);
  }
}

TEST_F(StepTest, LabelsMayHaveWhatAllOfTheirUsesAllow) {
  auto rangeOf = [&](const std::string &known) {
    auto module = parse(
        R"(
      func.func @forward(%x: tensor<2x3xf64> {graph.role = #graph.input<"x">}, %y: tensor<2xi64> {graph.role = #graph.input<"y")" +
        known +
        R"(>}) -> (tensor<2x3xf64> {graph.role = #graph.output<"logits">}) {
        return %x : tensor<2x3xf64>
      })");
    EXPECT_EQ(
        run(*module, createAttachLossPass({"cross_entropy(logits,y)", {}})),
        "");
    auto labels =
        graph::Boundary(function(*module)).getArgument<graph::InputAttr>(1);
    return std::pair(labels.getRange(), labels.getIgnored());
  };
  using Range = std::pair<std::optional<int64_t>, std::optional<int64_t>>;
  EXPECT_EQ(rangeOf(""), Range(3, -100));
  // The labels also index a table, which has no row for ignored labels.
  EXPECT_EQ(rangeOf(" range 5"), Range(3, std::nullopt));
  EXPECT_EQ(rangeOf(" range 2"), Range(2, std::nullopt));
}

/// Both microbatches have the same inputs, and the gradient tells how often
/// each element is kept.
TEST_F(StepTest, WhatIsDroppedDiffersBetweenMicrobatchesAndSteps) {
  auto kept = [&](int64_t microbatches, int64_t number) {
    auto module = parse(R"(
      graph.parameter @w : tensor<64xf64> at "m.onnx" offset 0 length 512 {trainable}
      func.func @forward(%x: tensor<1x64xf64> {graph.role = #graph.input<"x">}, %w: tensor<64xf64> {graph.role = #graph.parameter<@w>},
                         %a: tensor<i64> {graph.role = #graph.counter<seed>}, %b: tensor<i64> {graph.role = #graph.counter<step>}, %c: tensor<i64> {graph.role = #graph.counter<microbatch>})
          -> (tensor<1x64xf64> {graph.role = #graph.output<"y">}) {
        %r = graph.reshape %w : (tensor<64xf64>) -> tensor<1x64xf64>
        %p = graph.mul %x, %r : tensor<1x64xf64>
        %y = graph.dropout %p, %a, %b, %c {rate = 0.5 : f64, rng_id = 3 : i64} : (tensor<1x64xf64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x64xf64>
        return %y : tensor<1x64xf64>
      })");
    EXPECT_EQ(run(*module, createAttachLossPass({"mse(y,target)", {}})), "");
    EXPECT_EQ(run(*module, buildStepOf("train", "sgd(lr=1)", microbatches)),
              "");
    func::FuncOp step = function(*module, "step");
    SmallVector<Tensor> arguments = evaluate::randomArguments(step, 4);
    for (Tensor &tensor : arguments) {
      llvm::fill(tensor.floats, 1);
      llvm::fill(tensor.integers, 9);
    }
    llvm::fill(arguments.back().floats, 0); // targets
    arguments[1].integers[0] = number;
    std::vector<double> counts;
    SmallVector<Tensor> results = evaluate(step, arguments);
    for (double weight : results[0].floats)
      counts.push_back((1 - weight) * 64 / 8 * microbatches);
    return counts;
  };
  // Kept elements are doubled, so each adds 2 * 2 * 2 / 64 of the mean.
  std::vector<double> one = kept(1, 0), two = kept(2, 0);
  bool someOnce = false;
  for (auto [a, b] : llvm::zip_equal(one, two)) {
    EXPECT_TRUE(a == 0 || a == 1) << a;
    // The first of two microbatches drops what the only one does.
    EXPECT_TRUE(b == a || b == a + 1) << a << " and " << b;
    someOnce |= b == 1;
  }
  EXPECT_TRUE(someOnce);
  EXPECT_NE(one, kept(1, 1));
}

TEST_F(StepTest, ForwardModeComputesTheOutputs) {
  auto module = parse(linearOf(2));
  SmallVector<Tensor> arguments =
      evaluate::randomArguments(function(*module), 6);
  SmallVector<Tensor> expected = evaluate(function(*module), arguments);
  ASSERT_EQ(run(*module, buildStepOf("forward", "", 1)), "");
  func::FuncOp step = function(*module, "step");
  // Parameters first, then the input with its microbatch dim.
  SmallVector<Tensor> moved{arguments[1], arguments[2], arguments[3],
                            arguments[0].reshaped({1, 2, 4})};
  SmallVector<Tensor> results = evaluate(step, moved);
  ASSERT_EQ(results.size(), 4u);
  expectEqual({results[3].reshaped({2, 3})}, expected);
}

TEST_F(StepTest, TheBatchIsTheFirstDimOfInputsAndOutputs) {
  auto errorOf = [&](const std::string &y, const std::string &out,
                     const std::string &dim = "") {
    auto module = parse(
        "func.func @forward(%x: tensor<2x3xf64> {graph.role = "
        "#graph.input<\"x\">}, %y: tensor<" +
        y + "xf64> {graph.role = #graph.input<\"y\"" + dim + ">}) -> (tensor<" +
        out + R"(xf64> {graph.role = #graph.output<"out")" + dim + R"(>}) {
      %r = graph.reduce sum %x over [0, 1] : (tensor<2x3xf64>) -> tensor<f64>
      %o = graph.broadcast %r {dims = array<i64>} : (tensor<f64>) -> tensor<)" +
        out + "xf64>\n return %o : tensor<" + out + "xf64>\n }");
    return run(*module, buildStepOf("forward", "sgd", 1));
  };
  EXPECT_EQ(errorOf("2x7", "2"), "");
  EXPECT_EQ(errorOf("1x7", "1", " no_batch"), "");
  StringRef input = "input 'y' has a batch (dim 0) of 3, but input 'x' has one "
                    "of 2",
            output = "output 'out' has dims [4], but the inputs have a batch "
                     "of 2";
  EXPECT_TRUE(StringRef(errorOf("3", "2")).contains(input));
  EXPECT_TRUE(StringRef(errorOf("2", "4")).contains(output));
}

TEST_F(StepTest, ErrorsSayWhatIsExpected) {
  has(errorOf("cross_entropy(logit,labels)"),
      "the model has no output 'logit'; its outputs are: logits");
  has(errorOf("cross_entropy(logits)"),
      "expected cross_entropy(OUTPUT,LABELS)");
  has(errorOf("cross_entropy(logits,labels,axes=1)"),
      "has no option 'axes'; its options are: axis, ignore_index, "
      "label_smoothing, weight; nearest: 'axis'; output(OUTPUT) takes any loss "
      "that the exported model computes");
  has(errorOf("cross_entropy(logits,labels,target)"),
      "a loss of several terms is their sum");
  has(errorOf("hinge(logits)"), "unknown loss 'hinge'");
  has(errorOf("mse(logits,t)+(mse(logits,u))/2"),
      "'(mse(logits,u))/2' is not a loss with its weight");
  has(errorOf("mse(logits,t)*mse(logits,u)"), "is not a loss with its weight");
  has(errorOf("2/mse(logits,t)"), "is not a loss with its weight");
  has(errorOf("mse(logits,t)+"), "'mse(logits,t)+' lacks a loss");
  has(errorOf("logits"), "write output(logits) where it is the loss itself");
  has(errorOf("mse(logits,t)-2"), "the weight 2.000000e+00 has no loss");
  has(errorOf("mse(logits,t)/0"),
      "the weight of 'mse(logits,t)' is not a finite number");
  has(errorOf("mse(logits,t)+2*mse(logits,t)"), "'mse(logits,t)' twice");
  has(errorOf("cross_entropy(logits,y)+cross_entropy(logits,y,ignore_index=1)"),
      "one with ignore_index=-100 and one with ignore_index=1");
  has(errorOf("cross_entropy(logits,x)"), "the model's input 'x' has type");
  has(errorOf("output(logits)"), "is not one number");
  has(errorOf("mse(logits,t", "sgd"), "lacks the closing parenthesis");
  has(errorOf("mse(logits,t)", "adagrat"),
      "unknown optimizer 'adagrat'; there are: sgd, adam, adamw, adagrad, "
      "rmsprop, adafactor, lamb, lion, muon; nearest: 'adagrad'");
  has(errorOf("mse(logits,t)", "adagrad(initial_accumulator_value=-1)"),
      "initial_accumulator_value must not be negative");
  has(errorOf("mse(logits,t)", "adagrad(lr_decay=-1)"),
      "lr_decay must not be negative");
  has(errorOf("mse(logits,t)", "rmsprop(alpha=-1)"),
      "alpha must not be negative");
  has(errorOf("mse(logits,t)", "lion(eps=1)"), "lion has no option 'eps'");
  has(errorOf("mse(logits,t)", "adam(lr=fast)"),
      "'lr=fast': expected a number");
  has(errorOf("mse(logits,t)", "adamw lr=1e-3"),
      "'adamw lr=1e-3' is not NAME(..); write adamw(..)");
  has(errorOf("mse(logits,t)", "sgd(0.1,lr=0.2)"),
      "'0.1' is lr, which is given as 'lr=0.2' too");
  has(errorOf("mse(logits,t)", "sgd(1,0,0,0,false,2)"),
      "'2' is one value too many");
  has(errorOf("mse(logits,t)", "sgd(0.1,fused=True)"),
      "'fused' is how PyTorch computes the update");
  has(errorOf("mse(logits,t)", "sgd(0.1,amsgrad=True)"),
      "sgd has no option 'amsgrad'");
  has(errorOf("mse(logits,t)", "adam(betas=(0.9,0.95)"),
      "'adam(betas=(0.9,0.95)' has brackets that do not match");
  has(errorOf("mse(logits,t)", "adam(betas=(0.9;0.95))"),
      "'betas=(0.9;0.95)': expected two numbers, as in (0.9,0.999)");
  has(errorOf("mse(logits,t)", "sgd(nesterov=true)"),
      "nesterov needs a momentum");
  has(errorOf("mse(logits,t)", "sgd(momentum=0.9,dampening=0.1,nesterov=true)"),
      "nesterov needs a momentum and no dampening");
  for (const char *betas : {"1:0.9", "0.9:1", "-0.1:0.9", "0.9:1.5"})
    has(errorOf("mse(logits,t)", std::string("adam(betas=") + betas + ")"),
        "betas must be in [0, 1)");
  has(errorOf("mse(logits,t)", "adamw(decay=*.gamma)"),
      "decay=*.gamma matches no trainable parameter");
}

TEST_F(StepTest, GroupsThatCannotBeMeantAreRefused) {
  auto errorOf = [&](std::vector<std::string> groups,
                     StringRef optimizer = "adamw") {
    auto module = parse(linearOf(2));
    BuildStepPassOptions step;
    step.optimizer = optimizer;
    step.groups.assign(groups.begin(), groups.end());
    EXPECT_EQ(run(*module, createAttachLossPass({"mse(logits,t)", {}})), "");
    return run(*module, createBuildStepPass(step));
  };
  EXPECT_EQ(errorOf({"fc.bias: lr=x0.1", "*.weight: weight_decay=0, amsgrad"}),
            "");
  has(errorOf({"fc.bias"}), "--group 'fc.bias': expected PATTERN: KEY=VALUE");
  has(errorOf({"fc.bias:"}), "expected PATTERN: KEY=VALUE");
  has(errorOf({"fc.bias lr=1"}), "expected PATTERN: KEY=VALUE");
  has(errorOf({": lr=1"}), "'' is no pattern: it is empty");
  has(errorOf({"fc[: lr=1"}), "'fc[' is no pattern");
  has(errorOf({"fc.bias: 0.1"}), "'0.1' is not KEY=VALUE");
  has(errorOf({"fc.bias: weight_decy=0"}),
      "--group 'fc.bias: weight_decy=0': adamw has no option 'weight_decy'");
  has(errorOf({"fc.bias: decay=*"}), "adamw has no option 'decay'");
  for (const char *factor : {"x", "x-1", "xinf", "x0.1x"})
    has(errorOf({std::string("fc.bias: lr=") + factor}),
        "expected a rate, or a factor of the optimizer's that is not negative");
  has(errorOf({"fc.bias: lr=-1"}), "'lr=-1': lr must not be negative");
  has(errorOf({"fc.bias: lr=inf"}), "lr must be finite");
  has(errorOf({"fc.bias: nesterov"}, "sgd"), "nesterov needs a momentum");
  has(errorOf({"fc.bas: lr=1"}),
      "--group 'fc.bas: lr=1': 'fc.bas' matches no trainable parameter; "
      "nearest: 'fc.bias'");
  has(errorOf({"frozen: lr=1"}),
      "'frozen' matches no parameter that is trained; 'frozen' is frozen");
  has(errorOf({"fc.*: lr=1", "bias: lr=2"}),
      "--group 'fc.*: lr=1' and --group 'bias: lr=2' both name 'fc.bias'");
}

// Like PyTorch's groups, each group has the optimizer's options except its own.
TEST_F(StepTest, AGroupHasItsOwnStatesAndLearningRate) {
  auto module = parse(linearOf(2));
  BuildStepPassOptions step;
  step.optimizer = "sgd(lr=0.5,momentum=0.5)";
  step.schedule = "linear(total=4)";
  std::vector<std::string> groups{"bias: lr=x0.5, momentum=0"};
  step.groups.assign(groups.begin(), groups.end());
  EXPECT_EQ(run(*module, createAttachLossPass({"mse(logits,t)", {}})), "");
  EXPECT_EQ(run(*module, createBuildStepPass(step)), "");
  graph::Boundary boundary(module->lookupSymbol<func::FuncOp>("step"));
  std::vector<std::string> names;
  std::vector<double> rates;
  for (unsigned i = 0; i < boundary.getNumArguments(); ++i) {
    if (boundary.getArgument<graph::StateAttr>(i))
      names.push_back(boundary.getName(i));
    if (auto rate = boundary.getArgument<graph::LearningRateAttr>(i)) {
      names.push_back(rate.getName());
      rates.push_back(rate.getRate(2));
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fc.weight.momentum_buffer",
                                             "step", "learning rate x1",
                                             "learning rate x0.5"}));
  EXPECT_EQ(rates, (std::vector<double>{0.25, 0.125}));
}
