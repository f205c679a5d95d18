// A model cut into two stages and the same model whole: two plans, which
// polyrank-run trains to the same weights.

#include "compiler/plan/WritePlan.h"

#include <fstream>
#include <gtest/gtest.h>

#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "dialects/graph/Graph.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/PlanReport.h"
#include "support/arrays/Npz.h"
#include "support/safetensors/Safetensors.h"
#include "test/runtime/PlanBuilder.h"
#include "tools/polyrank-opt/RegisterPasses.h"
#include "llvm/Support/Program.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace polyrank;
using runtime::test::TemporaryDirectory;

namespace {

/// @w is used on both stages, @u on the second one.
constexpr const char *model = R"mlir(
module attributes {sharding.mesh = #sharding.mesh<[MESH]> STAGES} {
graph.parameter @w : tensor<4x4xf32> at "FILE" offset 0 length 64 {trainable}
graph.parameter @u : tensor<4x4xf32> at "FILE" offset 64 length 64 {trainable}
func.func @forward(%w: tensor<4x4xf32> {graph.role = #graph.parameter<@w>}, %u: tensor<4x4xf32> {graph.role = #graph.parameter<@u>}, %x: tensor<4x4xf32> {graph.role = #graph.input<"x">}, %l: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 4 ignored -100>}) -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<16>}) {
  %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] AT0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = graph.exp %0 AT0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = graph.matmul %e, %u batch [] x [] contract [1] x [0] AT1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w batch [] x [] contract [1] x [1] AT1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %loss, %lse = graph.cross_entropy %b, %l {axis = 1 : i64, ignore_index = -100 : i64 LOSS1} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %1 = graph.constant dense<-100> : tensor<4xi64>
  %2 = graph.compare ne %l, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %3 = graph.convert %2 : (tensor<4xi1>) -> tensor<4xf32>
  %4 = graph.reduce sum %3 over [0] : (tensor<4xf32>) -> tensor<f32>
  %5 = graph.reduce sum %loss over [0] AT1 : (tensor<4xf32>) -> tensor<f32>
  return %5, %4 : tensor<f32>, tensor<f32>
}
})mlir";

/// A product that is rounded to bf16, and one of bf16 that is not rounded.
constexpr const char *narrowModel = R"mlir(
module attributes {sharding.mesh = #sharding.mesh<["data"=1]>} {
graph.parameter @w : tensor<4x4xf32> at "FILE" offset 0 length 64 {trainable}
graph.parameter @u : tensor<4x4xf32> at "FILE" offset 64 length 64 {trainable}
func.func @forward(%w: tensor<4x4xf32> {graph.role = #graph.parameter<@w>}, %u: tensor<4x4xf32> {graph.role = #graph.parameter<@u>}, %x: tensor<4x4xf32> {graph.role = #graph.input<"x">}, %l: tensor<4xi64> {graph.role = #graph.input<"labels" labels range 4 ignored -100>}) -> (tensor<f32> {graph.role = #graph.mean<"cross_entropy(logits,labels)" weight 1.000000e+00 : f64>}, tensor<f32> {graph.role = #graph.count<4>}) {
  %xn = graph.convert %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %wn = graph.convert %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %0 = graph.matmul %xn, %wn batch [] x [] contract [1] x [0] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = graph.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = graph.exp %1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = graph.convert %2 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %un = graph.convert %u : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %logits = graph.matmul %h, %un batch [] x [] contract [1] x [0] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %loss, %lse = graph.cross_entropy %logits, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %count = graph.constant dense<4.0> : tensor<f32>
  %sum = graph.reduce sum %loss over [0] : (tensor<4xf32>) -> tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
})mlir";

constexpr const char *step =
    "build-step{optimizer=sgd(lr=0.5) microbatches=4 clip-norm=1},"
    "canonicalize,cse";

void replaceAll(std::string &text, const std::string &what,
                const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += by.size())
    text.replace(at, what.size(), by);
}

class WritePlanTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string weights = directory / "weights.bin", data = directory / "d.npz";
  std::unique_ptr<MLIRContext> context;

  void SetUp() override {
    static bool isRegistered =
        (mlir::registerTransformsPasses(), registerPasses(), true);
    (void)isRegistered;
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    context = std::make_unique<MLIRContext>(registry);
    std::vector<float> values;
    for (int i = 0; i < 32; ++i)
      values.push_back(0.2f * static_cast<float>(i * 7 % 9) - 0.7f);
    runtime::test::writeFile(weights, values.data(), 4 * values.size());
    writeData(/*ignored=*/7);
  }

  /// 32 samples. The label of each `ignored`-th one does not count; 0: all do.
  void writeData(int ignored) {
    auto writer = NpzWriter::create(data);
    ASSERT_TRUE(writer);
    std::vector<float> x;
    std::vector<int64_t> labels;
    for (int sample = 0; sample < 32; ++sample) {
      for (int i = 0; i < 4; ++i)
        x.push_back(static_cast<float>((sample * 5 + i * 3) % 11) / 6 - 1);
      labels.push_back(ignored && sample % ignored == 0 ? -100 : sample % 4);
    }
    std::vector<int64_t> shape{32, 4}, samples{32};
    ASSERT_TRUE(
        writer->add("x", ElementType::F32, shape, std::as_bytes(std::span(x))));
    ASSERT_TRUE(writer->add("labels", ElementType::I64, samples,
                            std::as_bytes(std::span(labels))));
    ASSERT_TRUE(writer->commit());
  }

  /// The plan of the model on this mesh, in stages or whole.
  void compile(const std::string &path, const std::string &mesh,
               bool hasStages) {
    std::string text = model;
    replaceAll(text, "MESH", mesh);
    replaceAll(text, "STAGES",
               hasStages ? ", pipeline.axis = \"pipe\", pipeline.coordinates = "
                           "array<i64: 0, 1>, pipeline.schedule = \"1f1b\""
                         : "");
    for (const char *stage : {"0", "1"}) {
      std::string attribute = std::string("graph.stage = ") + stage + " : i64";
      replaceAll(text, std::string("AT") + stage,
                 hasStages ? "{" + attribute + "}" : "");
      replaceAll(text, std::string("LOSS") + stage,
                 hasStages ? ", " + attribute : "");
    }
    compileModel(path, text,
                 hasStages
                     ? std::string("insert-transfers,") + step + ",join-stages"
                     : step);
  }

  /// The plan of a model whose step `passes` make.
  void compileModel(const std::string &path, std::string text,
                    std::string passes) {
    replaceAll(text, "FILE", weights);
    auto module = parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(module);
    PassManager manager(context.get());
    passes += ",apply-strategy,func.func(propagate-layouts),partition-stage,"
              "lowering-stage";
    ASSERT_TRUE(succeeded(parsePassPipeline(passes, manager)));
    ASSERT_TRUE(succeeded(manager.run(*module)));
    ASSERT_TRUE(succeeded(plan::writePlan(*module, {}, path)));
  }

  struct Trained {
    std::vector<nlohmann::json> log;
    std::vector<float> w, u;
  };

  void train(const std::string &plan, Trained &trained) {
    std::string log = directory / "log", saved = directory / "saved",
                errors = directory / "errors";
    StringRef arguments[] = {POLYRANK_RUN, plan,  "--data",  data,
                             "--steps",    "3",   "--log",   log,
                             "--save",     saved, "--order", "sequential",
                             "--quiet"};
    std::optional<StringRef> redirects[] = {std::nullopt, StringRef(errors),
                                            StringRef(errors)};
    ASSERT_EQ(llvm::sys::ExecuteAndWait(POLYRANK_RUN, arguments, std::nullopt,
                                        redirects, 60),
              0)
        << runtime::test::readFile(errors);
    std::ifstream lines(log);
    for (std::string line; std::getline(lines, line);)
      if (auto record = nlohmann::json::parse(line); record.contains("step"))
        trained.log.push_back(record);
    auto file = SafetensorsFile::open(saved);
    ASSERT_TRUE(file) << file.error().message;
    for (auto [name, values] :
         {std::pair("w", &trained.w), {"u", &trained.u}}) {
      values->resize(16);
      const auto *span = file->find(name);
      ASSERT_TRUE(span) << name;
      ASSERT_TRUE(file->read(*span, 0, values->data(), 64));
    }
  }
};

TEST_F(WritePlanTest, StagesTrainAsTheWholeDoes) {
  Trained whole;
  std::string one = directory / "one.plan", two = directory / "two.plan";
  compile(one, "\"data\"=2", false);
  ASSERT_FALSE(HasFatalFailure());
  train(one, whole);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(whole.log.size(), 3u);
  for (const char *mesh :
       {"\"data\"=2, \"pipe\"=2", "\"pipe\"=2, \"data\"=2", "\"pipe\"=2"}) {
    SCOPED_TRACE(mesh);
    Trained stages;
    compile(two, mesh, true);
    ASSERT_FALSE(HasFatalFailure());
    train(two, stages);
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_EQ(stages.log.size(), 3u);
    for (size_t s = 0; s < 3; ++s)
      for (const char *metric : {"loss", "count", "grad_norm"}) {
        double expected = whole.log[s].at(metric);
        EXPECT_NEAR(stages.log[s].at(metric).get<double>(), expected,
                    1e-5 * expected)
            << metric;
      }
    for (auto [found, expected] :
         {std::pair(&stages.w, &whole.w), {&stages.u, &whole.u}})
      for (size_t i = 0; i < found->size(); ++i)
        EXPECT_NEAR((*found)[i], (*expected)[i], 1e-5);
  }
}

// The numbers are PyTorch's:
//
//   for first in range(16 * step, 16 * step + 16, 4):
//       rows = [(first + i) % 32 for i in range(4)]
//       h = exp((x[rows].bfloat16() @ w.bfloat16()).float()).bfloat16()
//       logits = h.float() @ u.bfloat16().float()
//       (cross_entropy(logits, labels[rows], reduction="sum") / 16).backward()
//   w -= 0.5 * w.grad; u -= 0.5 * u.grad
//
// A product of bf16 that gives f32 is PyTorch's product of floats, each of
// which a bf16 represents.
TEST_F(WritePlanTest, ProductsOfBFloat16TrainAsPyTorchsDo) {
  writeData(/*ignored=*/0);
  std::string path = directory / "narrow.plan";
  compileModel(
      path, narrowModel,
      "build-step{optimizer=sgd(lr=0.5) microbatches=4},canonicalize,cse");
  ASSERT_FALSE(HasFatalFailure());
  Trained trained;
  train(path, trained);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(trained.log.size(), 3u);
  const double losses[] = {2.2073426, 1.7329099, 1.5294352};
  const float w[] = {-0.72899169f,   0.68616027f,  0.35414582f, -0.027738154f,
                     -0.45855713f,   0.75890201f,  0.5541082f,  0.1673913f,
                     -0.12652281f,   -0.32321471f, 0.62741393f, 0.20228273f,
                     -0.0057464242f, -0.33561325f, 0.88464969f, 0.47338873f};
  const float u[] = {-0.25818479f, -0.1837509f,  -0.33787841f,  0.57963866f,
                     0.15305787f,  0.060110509f, -0.10534668f,  0.49148411f,
                     0.26898962f,  0.16157687f,  -0.087231427f, -0.74351043f,
                     0.4337799f,   0.37716752f,  0.15500492f,   -0.56591797f};
  for (size_t s = 0; s < 3; ++s)
    EXPECT_NEAR(trained.log[s].at("loss").get<double>(), losses[s], 2e-6);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(trained.w[i], w[i], 1e-6) << i;
    EXPECT_NEAR(trained.u[i], u[i], 1e-6) << i;
  }
}

TEST_F(WritePlanTest, EachFunctionIsAProgramAtItsCoordinates) {
  std::string path = directory / "two.plan";
  compile(path, "\"data\"=2, \"pipe\"=2", true);
  ASSERT_FALSE(HasFatalFailure());
  auto plan = runtime::loadPlan(path);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->programs(), 2u);
  runtime::Mesh mesh(*plan->plan);
  EXPECT_EQ(runtime::describePlaces(mesh, plan->program(0).at()), "pipe=0");
  EXPECT_EQ(runtime::describePlaces(mesh, plan->program(1).at()), "pipe=1");
  // Tensors are stored once; what both programs have has one name.
  EXPECT_EQ(plan->plan->stored()->size(), 2u);
  runtime::PlanReport report = runtime::reportOf(*plan);
  EXPECT_EQ(report.parameterElements, 32);
  EXPECT_EQ(report.samplesPerStep, 16u);
  ASSERT_EQ(report.programs.size(), 2u);
  EXPECT_EQ(report.programs[0].parameterElements, 16);
  EXPECT_EQ(report.programs[0].ranks, 2);
  // The weight, and the activations of four microbatches; two gradients come
  // back.
  EXPECT_EQ(report.programs[0].sends, 5u);
  EXPECT_EQ(report.programs[1].receives, 5u);
  EXPECT_EQ(report.programs[0].receives, report.programs[1].sends);
  for (const runtime::CollectiveReason &reason : report.reasons)
    if (reason.kind == "Send") {
      EXPECT_GT(reason.bytes, 0u);
    }
}

} // namespace
