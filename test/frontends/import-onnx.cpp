// Test driver: imports a model and prints it, or checks it on test data.
//
//   import-onnx MODEL [--input NAME=DTYPE[D0,..]]...     prints MLIR
//   import-onnx MODEL --data FOLDER [--tolerance T]      compares the results

#include "frontends/onnx/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "test/frontends/Evaluate.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

int main(int argc, char **argv) {
  std::string model, data;
  double tolerance = 1e-4;
  bool locations = false;
  polyrank::frontends::ImportOptions options;
  for (int i = 1; i < argc; ++i) {
    StringRef argument = argv[i];
    if (argument == "--input" && i + 1 < argc) {
      std::string error;
      auto spec = polyrank::frontends::parseInputSpec(argv[++i], error);
      if (!spec) {
        llvm::errs() << "error: " << error << "\n";
        return 1;
      }
      options.inputs[spec->first] = spec->second;
    } else if (argument == "--data" && i + 1 < argc) {
      data = argv[++i];
    } else if (argument == "--tolerance" && i + 1 < argc) {
      tolerance = std::stod(argv[++i]);
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
    std::string wrong = polyrank::test::checkOnTestData(context, model, data,
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
