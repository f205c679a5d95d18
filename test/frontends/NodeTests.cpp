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
    std::string path = folder + "/model.onnx";
    auto read = onnx::readModel(path);
    ASSERT_TRUE(read) << read.error().message;
    const onnx::Model *model = read->get();
    std::string name = std::filesystem::path(folder).filename();
    if (std::string reason = test::whyLeftOut(*model, name); !reason.empty()) {
      ++left;
      continue;
    }
    std::string wrong = test::checkNodeTest(context, path, folder);
    EXPECT_EQ(wrong, "") << name;
    passed += wrong.empty();
    if (wrong.empty())
      for (const onnx::Node &node : model->graph.nodes)
        ++ops[std::string(node.type)];
  }
  std::cout << passed << " node tests of " << ops.size() << " ops agree, "
            << left << " are left out (import-onnx --node-tests says why)\n";
}

} // namespace
