// ONNX's own node tests (Debian's libonnx-testdata), imported and evaluated.

#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "frontends/onnx/NodeImporter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/frontends/Evaluate.h"

using namespace polyrank;
namespace onnx = polyrank::frontends::onnx;

namespace {

/// Parts of the names of tests ("/" is the end) that are left out although the
/// table has their op, and why.
const std::pair<std::string, std::string> skipped[] = {
    {"uint", "no unsigned integers"},
    {"BFLOAT16", "the test's data is stored as uint16"},
    {"STRING", "no strings"},
    {"identity_sequence", "the test's data is a sequence"},
    {"identity_opt", "the test's data is an optional"},
    {"mod_mixed_sign_float", "no Mod of floats"},
    {"batchnorm_epsilon_training", "statistics that are no state of the model"},
    {"batchnorm_example_training", "statistics that are no state of the model"},
    {"training_dropout/", "other random numbers"},
    {"training_dropout_mask", "other random numbers"},
    {"training_dropout_default", "other random numbers"},
    {"maxpool_with_argmax", "no indices of maxima"},
    {"reflect_pad", "Pad only with constants"},
    {"edge_pad", "Pad only with constants"},
};

/// The reason, or null.
const std::string *findSkip(const std::string &name) {
  for (const auto &[part, reason] : skipped)
    if ((name + "/").find(part) != std::string::npos)
      return &reason;
  return nullptr;
}

bool isInTable(const onnx::Model &model) {
  for (const onnx::Node &node : model.graph.nodes)
    for (const onnx::OpsetImport &opset : model.opsets)
      if (opset.domain == node.domain &&
          !onnx::findRow(node.domain, node.type, opset.version))
        return false;
  return true;
}

TEST(NodeTests, EveryTestOfAnOpInTheTableGivesOnnxsResult) {
  std::filesystem::path root = POLYRANK_ONNX_TESTDATA;
  if (!std::filesystem::exists(root))
    GTEST_SKIP() << "install libonnx-testdata for " << root;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::set<std::string> folders;
  for (const auto &entry : std::filesystem::directory_iterator(root))
    folders.insert(entry.path().string());
  std::map<std::string, int> ops;
  int passed = 0, left = 0;
  for (const std::string &folder : folders) {
    std::string error, path = folder + "/model.onnx";
    auto model = onnx::readModel(path, error);
    ASSERT_TRUE(model) << error;
    std::string name = std::filesystem::path(folder).filename();
    if (!isInTable(*model))
      continue;
    if (const std::string *reason = findSkip(name)) {
      ++left;
      std::cout << "left out: " << name << ": " << *reason << "\n";
      continue;
    }
    // With all inputs as arguments the graph ops are tested, with none the
    // folding; shapes and axes must be known in any case.
    std::string wrong;
    for (size_t arguments : {SIZE_MAX, size_t(1), size_t(0)}) {
      std::string result =
          test::checkOnTestData(context, path, folder, 1e-3, 1e-6, arguments);
      bool needsValue = result.find("known when") != std::string::npos ||
                        result.find("depends on inputs") != std::string::npos;
      if (arguments == 0 || !needsValue)
        wrong += result;
    }
    EXPECT_EQ(wrong, "") << name;
    passed += wrong.empty();
    if (wrong.empty())
      for (const onnx::Node &node : model->graph.nodes)
        ++ops[std::string(node.type)];
  }
  std::cout << passed << " node tests of " << ops.size() << " ops agree, "
            << left << " are left out\n";
}

} // namespace
