// The import of weights, names, and damaged files.

#include "frontends/onnx/Import.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

#include <gtest/gtest.h>

#include "frontends/onnx/Origin.h"
#include "frontends/onnx/OtherExporters.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/StateReport.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "support/Names.h"

using namespace polyrank;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

namespace {

/// A model in memory; `elements` must outlive it.
StoredTensor weight(std::string_view name, std::vector<int64_t> dims,
                    const std::vector<float> &elements, uint64_t offset,
                    ElementType type = ElementType::F32) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.bytes = {reinterpret_cast<const char *>(elements.data()),
                  elements.size() * sizeof(float)};
  tensor.span = FileSpan{"model.onnx", offset, tensor.bytes.size()};
  return tensor;
}

ValueInfo kind(std::string_view name, std::string_view kind,
               std::string_view persistent) {
  ValueInfo value;
  value.name = name;
  value.metadata = {
      {"pkg.torch.export.graph_signature.InputSpec.kind", kind},
      {"pkg.torch.export.graph_signature.InputSpec.persistent", persistent}};
  return value;
}

Node node(std::string_view type, std::vector<std::string_view> inputs,
          std::string_view output, std::string_view scopes = "",
          std::string_view classes = "") {
  Node node;
  node.type = type;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  if (!scopes.empty())
    node.metadata = {{"pkg.torch.onnx.name_scopes", scopes},
                     {"pkg.torch.onnx.class_hierarchy", classes}};
  return node;
}

const std::vector<float> ramp = {1, 2, 3, 4}, ones = {1, 1, 1, 1};

TEST(State, IsWhatThePyTorchExporterSaysItIs) {
  Model model;
  auto &tensors = model.graph.initializers;
  tensors.push_back(weight("fc.weight", {2, 2}, ramp, 0));
  tensors.push_back(weight("bn.running_mean", {4}, ones, 16));
  tensors.push_back(weight("rope.inv_freq", {4}, ramp, 32));
  tensors.push_back(weight("val_3", {2, 2}, ramp, 48));
  model.graph.values.push_back(kind("fc.weight", "PARAMETER", "None"));
  model.graph.values.push_back(kind("bn.running_mean", "BUFFER", "True"));
  model.graph.values.push_back(kind("rope.inv_freq", "BUFFER", "False"));
  ModelState state = findState(model);
  ASSERT_EQ(state.parameters.size(), 2u);
  EXPECT_TRUE(state.parameters[0].trainable);
  EXPECT_EQ(state.parameters[1].name, "bn.running_mean");
  EXPECT_FALSE(state.parameters[1].trainable);
}

TEST(State, ABufferOfIntegersIsStateAndAConstant) {
  Model model;
  model.graph.initializers.push_back(
      weight("mask", {4}, ones, 0, ElementType::I32));
  model.graph.values.push_back(kind("mask", "BUFFER", "True"));
  ModelState state = findState(model);
  EXPECT_EQ(state.parameters.size(), 1u);
  EXPECT_FALSE(state.values.contains("mask"));
}

TEST(State, ATiedWeightHasTheNamesOfBothLayers) {
  Model model;
  model.graph.initializers.push_back(weight("head.weight", {2, 2}, ramp, 0));
  model.graph.values.push_back(kind("head.weight", "PARAMETER", "None"));
  model.graph.nodes.push_back(
      node("Gather", {"head.weight", "ids"}, "x", "['', 'wte', 'embedding']",
           "['M', 'torch.nn.modules.sparse.Embedding', 'aten']"));
  model.graph.nodes.push_back(
      node("MatMul", {"x", "head.weight"}, "y", "['', 'head', 'linear']",
           "['M', 'torch.nn.modules.linear.Linear', 'aten']"));
  // The model itself uses its child's weight: no layer of that name.
  model.graph.nodes.push_back(
      node("Add", {"y", "head.weight"}, "z", "['', 'add']", "['M', 'aten']"));
  ModelState state = findState(model);
  ASSERT_EQ(state.parameters.size(), 1u);
  EXPECT_EQ(state.parameters[0].aliases,
            std::vector<std::string>{"wte.weight"});
}

TEST(State, TwoInitializersOfOneSpanAreOneParameter) {
  Model model;
  model.graph.initializers.push_back(weight("a.weight", {2, 2}, ramp, 64));
  model.graph.initializers.push_back(weight("b.weight", {2, 2}, ramp, 64));
  ModelState state = findState(model);
  ASSERT_EQ(state.parameters.size(), 1u);
  EXPECT_EQ(state.parameters[0].aliases, std::vector<std::string>{"b.weight"});
  EXPECT_EQ(state.values["b.weight"].index, 0u);
}

TEST(State, EqualVectorsThatTheExporterMergedAreTakenApart) {
  Model model;
  model.graph.initializers.push_back(weight("ln_1.weight", {4}, ramp, 0));
  model.graph.initializers.push_back(weight("zero.weight", {2, 2}, ones, 16));
  model.graph.initializers.push_back(weight("wte.weight", {2, 2}, ramp, 32));
  model.graph.nodes.push_back(node("Identity", {"ln_1.weight"}, "ln_2.weight"));
  model.graph.nodes.push_back(node("Identity", {"zero.weight"}, "b.weight"));
  model.graph.nodes.push_back(node("Identity", {"wte.weight"}, "head.weight"));
  ModelState state = findState(model);
  ASSERT_EQ(state.parameters.size(), 5u);
  EXPECT_EQ(state.values["ln_2.weight"].index, 3u);
  EXPECT_EQ(state.values["b.weight"].index, 4u);
  EXPECT_EQ(state.values["head.weight"].index,
            state.values["wte.weight"].index);
}

/// A node with the exporter's record of the operator that it was made from.
Node recorded(std::string_view type, std::vector<std::string_view> inputs,
              std::string_view output, std::string_view record,
              std::string_view scopes, std::string_view classes) {
  Node result = node(type, std::move(inputs), output, scopes, classes);
  result.metadata.emplace_back("pkg.torch.onnx.fx_node", record);
  return result;
}

/// wte (tied to head) and two equal norms, as the exporter's optimizer leaves
/// them: one norm, and a transposed copy for the head.
Model optimized(const std::vector<float> &copy) {
  Model model;
  model.graph.metadata = {
      {"pkg.torch.export.ExportedProgram.graph_signature",
       "\n# inputs\np_wte_weight: PARAMETER target='wte.weight'\n"
       "p_ln_1_weight: PARAMETER target='ln_1.weight'\n"
       "p_ln_2_weight: PARAMETER target='ln_2.weight'\n"
       "p_wpe_weight: PARAMETER target='wpe.weight'\n"
       "p_head_weight: PARAMETER target='head.weight'\n\n# outputs\n"}};
  model.graph.initializers.push_back(weight("head.weight", {2, 2}, ramp, 0));
  model.graph.initializers.push_back(weight("ln_1.weight", {4}, ones, 16));
  model.graph.initializers.push_back(weight("val_7", {2, 2}, copy, 32));
  model.graph.initializers.push_back(weight("places", {2, 2}, ramp, 48));
  model.graph.values.push_back(kind("head.weight", "PARAMETER", "None"));
  model.graph.values.push_back(kind("ln_1.weight", "PARAMETER", "None"));
  ValueInfo places;
  places.name = "places";
  places.metadata = {
      {"pkg.onnxscript.optimizer.folded_from", "['val_1', 'wpe.weight']"}};
  model.graph.values.push_back(places);
  model.graph.nodes.push_back(recorded(
      "Gather", {"head.weight", "ids"}, "x",
      "%e : [] = call_function[target=torch.ops.aten.embedding.default](args = "
      "(%p_head_weight, %ids), kwargs = {})",
      "['', 'wte', 'embedding']",
      "['M', 'torch.nn.modules.sparse.Embedding', 'aten']"));
  model.graph.nodes.push_back(node("Add", {"x", "places"}, "y"));
  for (std::string_view norm : {"1", "2"})
    model.graph.nodes.push_back(recorded(
        "LayerNormalization", {"y", "ln_1.weight"}, "y",
        norm == "1" ? "[target=torch.ops.aten.layer_norm.default](args = (%x, "
                      "[4], %p_ln_1_weight), kwargs = {})"
                    : "[target=torch.ops.aten.layer_norm.default](args = (%x, "
                      "[4], %p_ln_2_weight), kwargs = {})",
        norm == "1" ? "['', 'ln_1', 'n']" : "['', 'ln_2', 'n']",
        "['M', 'torch.nn.modules.normalization.LayerNorm', 'aten']"));
  model.graph.nodes.push_back(recorded(
      "MatMul", {"y", "val_7"}, "z",
      "%l : [] = call_function[target=torch.ops.aten.linear.default](args = "
      "(%y, %p_head_weight), kwargs = {})",
      "['', 'head', 'linear']",
      "['M', 'torch.nn.modules.linear.Linear', 'aten.linear.default']"));
  return model;
}

const std::vector<float> transposedRamp = {1, 3, 2, 4};

TEST(State, ATransposedCopyOfATiedMatrixIsThatMatrix) {
  Model model = optimized(transposedRamp);
  ModelState state = findState(model);
  EXPECT_EQ(state.copies, 1u);
  EXPECT_EQ(state.values["val_7"].index, state.values["head.weight"].index);
  EXPECT_TRUE(state.values["val_7"].transposed);
  EXPECT_EQ(state.parameters[0].aliases,
            std::vector<std::string>{"wte.weight"});
}

TEST(State, CopiesThatStayApartShareOutTheNames) {
  Model model = optimized(transposedRamp);
  ModelState state = findState(model, /*tie=*/false);
  ASSERT_EQ(state.parameters.size(), 4u);
  EXPECT_EQ(state.parameters[state.values["head.weight"].index].name,
            "wte.weight");
  const Parameter &head = state.parameters[state.values["val_7"].index];
  EXPECT_EQ(head.name, "head.weight");
  EXPECT_TRUE(head.transposed);
}

TEST(State, ACopyWithOtherValuesIsAParameterOfItsOwn) {
  const std::vector<float> other = {1, 3, 2, 5};
  Model model = optimized(other);
  ModelState state = findState(model);
  EXPECT_EQ(state.copies, 0u);
  EXPECT_NE(state.values["val_7"].index, state.values["head.weight"].index);
}

TEST(State, EqualParametersThatAnOptimizerMergedAreTwo) {
  Model model = optimized(transposedRamp);
  ModelState state = findState(model);
  ASSERT_EQ(state.operands.size(), 1u);
  auto [operand, use] = *state.operands.begin();
  EXPECT_EQ(operand.second, 1u);
  EXPECT_EQ(state.parameters[use.index].name, "ln_2.weight");
}

TEST(State, WhatAnOptimizerComputedIsNamedInOneWarning) {
  Model model = optimized(transposedRamp);
  ModelState state = findState(model);
  ASSERT_EQ(state.warnings.size(), 1u);
  EXPECT_NE(state.warnings[0].find("constants: wpe.weight"), std::string::npos)
      << state.warnings[0];
  EXPECT_NE(state.warnings[0].find("of its 5 parameters it lacks 1"),
            std::string::npos)
      << state.warnings[0];
}

TEST(State, NamesThatDifferInNumbersAreOnePattern) {
  const std::string names[] = {"h.0.ln.weight", "h.1.ln.weight", "wpe.weight"};
  EXPECT_EQ(polyrank::groupNames(names), "h.[0-1].ln.weight, wpe.weight");
}

TEST(State, OldExportsTellParametersByTheirNames) {
  Model model;
  model.producer = "pytorch";
  model.graph.initializers.push_back(weight("h.0.weight", {4}, ramp, 0));
  model.graph.initializers.push_back(weight("onnx::MatMul_34", {4}, ramp, 16));
  model.graph.initializers.push_back(weight("17", {4}, ramp, 32));
  model.graph.initializers.push_back(weight("scale", {}, {2}, 48));
  model.graph.initializers.push_back(
      weight("shape", {4}, ones, 64, ElementType::I32));
  EXPECT_EQ(findState(model).parameters.size(), 1u);
}

TEST(State, OtherExportersMayGiveAWeightAnyName) {
  Model model;
  model.producer = "tf2onnx";
  uint64_t offset = 0;
  for (std::string_view name : {"17", "model/dense/MatMul:0", "val_3",
                                "onnx::MatMul_34", "/h.0/Mul_output_0"})
    model.graph.initializers.push_back(weight(name, {4}, ramp, offset += 16));
  ModelState state = findState(model);
  ASSERT_EQ(state.parameters.size(), 3u);
  EXPECT_EQ(state.parameters[1].name, "model/dense/MatMul:0");
  model.producer = "pytorch"; // which gives no such name to what it computes
  ASSERT_EQ(findState(model).parameters.size(), 1u);
}

TEST(State, TrainOnlyNamesConstantsToo) {
  Model model;
  model.producer = "pytorch";
  model.graph.initializers.push_back(weight("12", {4}, ramp, 0));
  model.graph.initializers.push_back(weight("13", {4}, ramp, 16));
  model.graph.initializers.push_back(weight("14", {1}, {2}, 32));
  model.graph.nodes.push_back(node("Sum", {"12", "13", "14"}, "y"));
  EXPECT_EQ(findState(model).parameters.size(), 0u);
  EXPECT_EQ(findState(model, true, nullptr, {"1*"}).parameters.size(), 2u);
  EXPECT_EQ(findState(model, true, nullptr, {"14"}).parameters.size(), 1u);
  // If the file states the parameters, a pattern selects among these.
  model.graph.values.push_back(kind("13", "PARAMETER", "None"));
  EXPECT_EQ(findState(model, true, nullptr, {"*"}).parameters.size(), 1u);
  EXPECT_EQ(findState(model, true, nullptr, {"12"}).parameters.size(), 2u);
}

TEST(State, AFileOfWhichNearlyNothingWouldTrainIsNamed) {
  std::vector<float> many(100, 1);
  Model model;
  model.producer = "pytorch";
  model.graph.initializers.push_back(weight("12", {100}, many, 0));
  model.graph.initializers.push_back(weight("bias", {4}, ramp, 400));
  model.graph.nodes.push_back(node("Sum", {"12", "bias"}, "y"));
  ModelState state = findState(model);
  EXPECT_NE(state.untrained.find("Only 4 elements"), std::string::npos);
  EXPECT_TRUE(state.warnings.empty());
  model.graph.initializers.push_back(weight("other", {2}, ramp, 416));
  state = findState(model);
  EXPECT_TRUE(state.untrained.empty());
  EXPECT_EQ(state.warnings.size(), 1u);
}

TEST(State, WeightsMayLieInNodes) {
  auto constant = [](std::string_view name, std::vector<int64_t> dims) {
    Node result = node("Constant", {}, name);
    Attribute &value = result.attributes.emplace_back();
    value.name = "value";
    value.t = std::make_shared<StoredTensor>(weight("", dims, ramp, 0));
    return result;
  };
  auto made = [&] {
    Model model;
    model.graph.nodes.push_back(constant("linear_0.w_0", {2, 2}));
    model.graph.nodes.push_back(constant("onnx::Mul_3", {2, 2}));
    model.graph.nodes.push_back(constant("scales", {4}));
    model.graph.nodes.push_back(node("MatMul", {"x", "linear_0.w_0"}, "y"));
    model.graph.nodes.push_back(node("Mul", {"y", "onnx::Mul_3"}, "z"));
    model.graph.nodes.push_back(node("Resize", {"z", "", "scales"}, "u"));
    return model;
  };
  Model model = made();
  liftConstants(model);
  ASSERT_EQ(model.graph.initializers.size(), 1u);
  EXPECT_EQ(model.graph.initializers[0].name, "linear_0.w_0");
  EXPECT_EQ(model.graph.nodes.size(), 5u);
  // PyTorch's record says what is a parameter.
  model = made();
  model.graph.metadata = {
      {"pkg.torch.export.ExportedProgram.graph_signature", "# inputs\n"}};
  liftConstants(model);
  EXPECT_TRUE(model.graph.initializers.empty());
}

TEST(Origin, IsTheModulePathOfMetadataOrName) {
  EXPECT_EQ(originOf(node("Gemm", {}, "y", "['', 'h', 'h.0', 'addmm']")).scope,
            "h.0");
  Node old = node("MatMul", {}, "y");
  old.name = "/h.0/attn/MatMul";
  EXPECT_EQ(originOf(old).scope, "h.0.attn");
}

TEST(InputSpec, HasANameATypeAndDims) {
  auto spec = parseInputSpec("ids=int64[8, 128]");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->first, "ids");
  EXPECT_EQ(spec->second.dtype, "int64");
  EXPECT_EQ(spec->second.shape, (llvm::SmallVector<int64_t>{8, 128}));
  EXPECT_TRUE(parseInputSpec("x=float32[]"));
  for (const char *wrong :
       {"ids", "ids=int64", "=int64[1]", "ids=[1]", "ids=int64[0]",
        "ids=int64[-1]", "ids=int64[a]", "ids=int64[1", "ids=int64[1,]"})
    EXPECT_FALSE(parseInputSpec(wrong)) << wrong;
}

TEST(Import, ADamagedModelGivesAModuleOrAMessage) {
  std::ifstream file(POLYRANK_MODELS "/mlp.onnx", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(bytes.empty());
  std::string path = std::filesystem::temp_directory_path() /
                     ("polyrank-import-" + std::to_string(getpid()) + ".onnx");
  std::mt19937 random(1);
  const unsigned char extremes[] = {0, 1, 2, 0x7f, 0x80, 0xff};
  for (int round = 0; round < 300; ++round) {
    std::string mutant = bytes;
    for (unsigned change = random() % 4 + 1; change > 0; --change)
      mutant[random() % 4300] = static_cast<char>( // before the weights
          random() % 2 ? extremes[random() % 6] : random());
    std::ofstream(path, std::ios::binary) << mutant;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    bool said = false;
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &diagnostic) {
          said |= diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          return mlir::success();
        });
    auto module = importOnnx(context, path, {});
    EXPECT_NE(bool(module), said);
  }
  std::filesystem::remove(path);
}

} // namespace
