// A loss that the model computes is that of the global batch for any number of
// microbatches: two of two samples give the same as one of four.

#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

/// For each sample `l` is its loss, which depends on the parameters w, and `f`
/// (from integers) or `m` is its weight; ce and masked are means with these
/// weights, and square is a mean over all samples.
constexpr const char *model = R"(
  graph.parameter @w : tensor<2xf64> at "m.onnx" offset 0 length 16 {trainable}
  graph.parameter @k : tensor<f64> at "m.onnx" offset 16 length 8
  func.func @forward(%x: tensor<Bx2xf64> {graph.role = #graph.input<"x">}, %n: tensor<Bxi64> {graph.role = #graph.input<"n">},
                     %m: tensor<Bxf64> {graph.role = #graph.input<"m">}, %w: tensor<2xf64> {graph.role = #graph.parameter<@w>},
                     %k: tensor<f64> {graph.role = #graph.parameter<@k>})
      -> (tensor<f64> {graph.role = #graph.output<"loss">}) {
    %wide = graph.broadcast %w {dims = array<i64: 1>} : (tensor<2xf64>) -> tensor<Bx2xf64>
    %p = graph.mul %x, %wide : tensor<Bx2xf64>
    %l = graph.reduce sum %p over [1] : (tensor<Bx2xf64>) -> tensor<Bxf64>
    %f = graph.convert %n : (tensor<Bxi64>) -> tensor<Bxf64>
    %lf = graph.mul %l, %f : tensor<Bxf64>
    %s = graph.reduce sum %lf over [0] : (tensor<Bxf64>) -> tensor<f64>
    %c = graph.reduce sum %f over [0] : (tensor<Bxf64>) -> tensor<f64>
    %ce = graph.div %s, %c : tensor<f64>
    %lm = graph.mul %l, %m : tensor<Bxf64>
    %sm = graph.reduce sum %lm over [0] : (tensor<Bxf64>) -> tensor<f64>
    %cm = graph.reduce sum %m over [0] : (tensor<Bxf64>) -> tensor<f64>
    %masked = graph.div %sm, %cm : tensor<f64>
    %l2 = graph.mul %l, %l : tensor<Bxf64>
    %s2 = graph.reduce sum %l2 over [0] : (tensor<Bxf64>) -> tensor<f64>
    %size = graph.constant dense<B.0> : tensor<f64>
    %square = graph.div %s2, %size : tensor<f64>
    %w2 = graph.mul %w, %w : tensor<2xf64>
    %norm = graph.reduce sum %w2 over [0] : (tensor<2xf64>) -> tensor<f64>
    %half = graph.constant dense<0.5> : tensor<f64>
    %one = graph.constant dense<1.0> : tensor<f64>
    %ten = graph.constant dense<10.0> : tensor<f64>
    LOSS
    return %y : tensor<f64>
  }
)";

struct Case {
  const char *name, *loss;
  /// The log's numbers beside the loss.
  std::vector<std::string> logged;
};

const Case cases[] = {
    {"a quotient", "%y = graph.add %ce, %ce : tensor<f64>", {"count"}},
    {"a multiple", "%y = graph.mul %half, %ce : tensor<f64>", {"count"}},
    {"a multiple by what is not trained",
     "%y = graph.mul %ce, %k : tensor<f64>",
     {"count"}},
    {"a mask of floats", "%y = graph.neg %masked : tensor<f64>", {"count"}},
    {"with a mean over all samples",
     "%y = graph.add %square, %ce : tensor<f64>",
     {"count"}},
    {"with a regularizer",
     "%y = graph.sub %ce, %norm : tensor<f64>",
     {"count"}},
    {"two counts",
     "%a = graph.div %masked, %ten : tensor<f64> %y = graph.add %ce, %a : "
     "tensor<f64>",
     {"output(loss).1", "output(loss).1.count", "output(loss).2",
      "output(loss).2.count"}},
    {"no count", "%y = graph.add %square, %norm : tensor<f64>", {"count"}},
    {"a count of ten at least",
     "%a = graph.max %c, %ten : tensor<f64> %y = graph.div %s, %a : "
     "tensor<f64>",
     {"count"}},
    {"a count of ten at least, as clamp is written",
     "%b = graph.compare lt %c, %ten : (tensor<f64>, tensor<f64>) -> "
     "tensor<i1> "
     "%a = graph.select %b, %ten, %c : (tensor<i1>, tensor<f64>, tensor<f64>) "
     "-> "
     "tensor<f64> %y = graph.div %s, %a : tensor<f64>",
     {"count"}},
    {"each divided by the count",
     "%a = graph.broadcast %cm {dims = array<i64>} : (tensor<f64>) -> "
     "tensor<Bxf64> %b = graph.div %lm, %a : tensor<Bxf64> %y = graph.reduce "
     "sum "
     "%b over [0] : (tensor<Bxf64>) -> tensor<f64>",
     {"count"}},
    {"each weighed with a share of the count",
     "%a = graph.broadcast %cm {dims = array<i64>} : (tensor<f64>) -> "
     "tensor<Bxf64> %b = graph.div %m, %a : tensor<Bxf64> %d = graph.mul %b, "
     "%l : "
     "tensor<Bxf64> %y = graph.reduce sum %d over [0] : (tensor<Bxf64>) -> "
     "tensor<f64>",
     {"count"}},
    {"numbers put together",
     "%a = graph.reshape %ce : (tensor<f64>) -> tensor<1xf64> "
     "%b = graph.reshape %square : (tensor<f64>) -> tensor<1xf64> "
     "%d = graph.concat %a, %b {dim = 0 : i64} : (tensor<1xf64>, "
     "tensor<1xf64>) "
     "-> tensor<2xf64> %y = graph.reduce sum %d over [0] : (tensor<2xf64>) -> "
     "tensor<f64>",
     {"count"}},
};

class LossPartsTest : public TrainingTest {
protected:
  /// The parameters after a step and the numbers of the log.
  using Outcome = std::pair<std::vector<double>, std::map<std::string, double>>;

  Outcome train(StringRef loss, int64_t batch, int64_t microbatches) {
    std::string text = model;
    text.replace(text.find("LOSS"), 4, loss);
    for (StringRef unit : {"Bx", "B.0"})
      for (size_t at; (at = text.find(unit)) != std::string::npos;)
        text.replace(at, 1, std::to_string(batch));
    auto module = parse(text);
    BuildStepPassOptions options;
    options.mode = "train";
    options.optimizer = "sgd(lr=1)";
    options.microbatches = microbatches;
    EXPECT_EQ(run(*module, createAttachLossPass({"output(loss)", {}})), "");
    EXPECT_EQ(run(*module, createBuildStepPass(options)), "");
    func::FuncOp step = function(*module, "step");
    SmallVector<Tensor> arguments = evaluate::randomArguments(step, 4);
    graph::Boundary boundary(step);
    for (unsigned i = 0; i < arguments.size(); ++i) {
      std::string name = boundary.getName(i);
      if (name == "w")
        arguments[i].floats = {2, -3};
      else if (name == "k")
        arguments[i].floats = {0.75};
      else if (name == "x")
        arguments[i].floats = {1, 2, 3, -4, 5, 7, 6, 8};
      else if (name == "n")
        arguments[i].integers = {1, 0, 1, 1};
      else if (name == "m")
        arguments[i].floats = {0.5, 0, 2, 1};
    }
    SmallVector<Tensor> results = evaluate(step, arguments);
    Outcome outcome;
    for (unsigned i = 0; i < results.size(); ++i) {
      if (auto output = boundary.getResult<graph::OutputAttr>(i))
        outcome.second[output.getName().str()] = results[i].floats[0];
      else if (boundary.getReplaced(i) == 0u)
        outcome.first = results[i].floats;
    }
    return outcome;
  }
};

TEST_F(LossPartsTest, SeveralMicrobatchesHaveTheLossOfTheirSamplesTogether) {
  for (const Case &each : cases) {
    SCOPED_TRACE(each.name);
    Outcome whole = train(each.loss, 4, 1), parts = train(each.loss, 2, 2);
    ASSERT_EQ(whole.first.size(), parts.first.size());
    for (size_t i = 0; i < whole.first.size(); ++i)
      EXPECT_NEAR(whole.first[i], parts.first[i], 1e-12);
    std::vector<std::string> names;
    for (auto &[name, value] : parts.second) {
      // If nothing is counted the count is the number of microbatches.
      bool isTheirs = StringRef(each.name) == "no count" && name == "count";
      EXPECT_NEAR(whole.second[name] * (isTheirs ? 2 : 1), value, 1e-12)
          << name;
      if (name != "loss")
        names.push_back(name);
    }
    EXPECT_EQ(names, each.logged);
  }
}

} // namespace
