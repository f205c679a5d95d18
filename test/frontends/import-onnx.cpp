// Test driver: imports a model and prints it, or checks it on test data.
//
//   import-onnx MODEL [--input NAME=DTYPE[D0,..]]... [--no-tie]    prints MLIR
//   import-onnx --node-tests FOLDER     lists ONNX's node tests, and which are
//   left out why
//   import-onnx --op-table FOLDER       prints docs/onnx-operators.md
//   import-onnx MODEL --data FOLDER [--tolerance T | --node-test]
//   compares the results

#include "frontends/onnx/Import.h"
#include "frontends/onnx/OpTable.h"

#include <filesystem>
#include <map>
#include <set>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "test/frontends/Evaluate.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// Each of ONNX's node tests below `root`, and after a tab why it is left out.
static int listNodeTests(const std::string &root) {
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(root))
    names.insert(entry.path().filename());
  for (const std::string &name : names) {
    auto model =
        polyrank::frontends::onnx::readModel(root + "/" + name + "/model.onnx");
    if (!model) {
      llvm::errs() << model.error().message << "\n";
      return 1;
    }
    llvm::outs() << name << "\t" << polyrank::test::whyLeftOut(**model, name)
                 << "\n";
  }
  return 0;
}

/// The page of ONNX's ops, with how many of its node tests below `root` are of
/// each, evaluated and left out.
static int printOpTable(const std::string &root) {
  using namespace polyrank::frontends::onnx;
  std::map<std::string, std::pair<int, int>> tests; // by op
  for (const auto &entry : std::filesystem::directory_iterator(root)) {
    std::string name = entry.path().filename();
    auto model = readModel(root + "/" + name + "/model.onnx");
    if (!model) {
      llvm::errs() << model.error().message << "\n";
      return 1;
    }
    bool isEvaluated = polyrank::test::whyLeftOut(**model, name).empty();
    std::set<std::string> ops;
    for (const Node &node : (*model)->graph.nodes)
      ops.insert((node.domain.empty() ? "" : std::string(node.domain) + ".") +
                 std::string(node.type));
    for (const std::string &op : ops)
      ++(isEvaluated ? tests[op].first : tests[op].second);
  }
  std::map<std::string, std::set<int64_t>> versions;
  for (const OpRow &row : listRows())
    versions[(row.domain.empty() ? "" : row.domain.str() + ".") +
             row.type.str()]
        .insert(row.since);
  versions["If"] = versions["Loop"] = {1};
  llvm::outs()
      << "# ONNX's ops\n\n"
         "Generated from the table in `frontends/onnx` (`ninja update-docs`). "
         "`from opset` says where the op's meaning or form\nchanges; before "
         "the first number it is refused. `node tests` are ONNX's own, of "
         "Debian's libonnx-testdata (opset 17 and\nbefore), that are evaluated "
         "and give ONNX's result; `left out` are those that are not, and "
         "`import-onnx --node-tests FOLDER`\nsays why: data that is no tensor, "
         "shapes that depend on values. What has no such test is compared with "
         "onnxruntime in\n`test/parity/test_operators.py` and "
         "`test_fused_operators.py`.\n\n| op | from opset | node tests | left "
         "out |\n|---|---|---|---|\n";
  for (const auto &[op, since] : versions) {
    llvm::outs() << "| `" << op << "` | ";
    llvm::interleaveComma(since, llvm::outs());
    auto [evaluated, left] = tests[op];
    llvm::outs() << " | " << evaluated << " | " << left << " |\n";
  }
  return 0;
}

int main(int argc, char **argv) {
  std::string model, data;
  double tolerance = 1e-4;
  bool locations = false, isNodeTest = false;
  polyrank::frontends::ImportOptions options;
  for (int i = 1; i < argc; ++i) {
    StringRef argument = argv[i];
    if (argument == "--input" && i + 1 < argc) {
      auto spec = polyrank::frontends::parseInputSpec(argv[++i]);
      if (!spec) {
        llvm::errs() << "error: " << spec.error().message << "\n";
        return 1;
      }
      options.inputs[spec->first] = spec->second;
    } else if (argument == "--data" && i + 1 < argc) {
      data = argv[++i];
    } else if (argument == "--tolerance" && i + 1 < argc) {
      tolerance = std::stod(argv[++i]);
    } else if (argument == "--node-tests" && i + 1 < argc) {
      return listNodeTests(argv[++i]);
    } else if (argument == "--op-table" && i + 1 < argc) {
      return printOpTable(argv[++i]);
    } else if (argument == "--node-test") {
      isNodeTest = true;
    } else if (argument == "--dim" && i + 1 < argc) {
      auto [name, size] = StringRef(argv[++i]).split('=');
      options.dims[name] = std::stoll(size.str());
    } else if (argument == "--no-tie") {
      options.tie = false;
    } else if (argument == "--locations") {
      locations = true;
    } else {
      model = argument;
    }
  }
  MLIRContext context;
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  if (!data.empty()) {
    std::string wrong =
        isNodeTest ? polyrank::test::checkNodeTest(context, model, data)
                   : polyrank::test::checkOnTestData(context, model, data,
                                                     tolerance, tolerance);
    llvm::outs() << model << ": " << (wrong.empty() ? "equal" : wrong) << "\n";
    return wrong.empty() ? 0 : 1;
  }
  auto module = polyrank::frontends::importOnnx(context, model, options);
  if (!module)
    return 1;
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(64);
  if (locations)
    flags.enableDebugInfo();
  module->print(llvm::outs(), flags);
  return 0;
}
