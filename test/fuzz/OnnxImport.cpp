// Any bytes as an ONNX model, through the importer into the graph dialect. The
// importer is built with the sanitizers, MLIR is not.

#include "frontends/onnx/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/fuzz/Input.h"
#include "test/fuzz/Mlir.h"

using namespace mlir;
using namespace polyrank;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  [[maybe_unused]] static const std::string external =
      fuzz::writeFile("data", std::string(4096, '\x3f'));
  std::string path = fuzz::writeFile("model.onnx", fuzz::text(data, size));
  static fuzz::Context contexts;
  MLIRContext &context = contexts.next();
  fuzz::Diagnostics diagnostics(context);
  frontends::ImportOptions options;
  options.training = size % 2;
  // This much takes a fraction of a second even with the sanitizers.
  options.foldingBudget = 1 << 16;
  OwningOpRef<ModuleOp> module = frontends::importOnnx(context, path, options);
  diagnostics.checkOutcome(bool(module));
  return 0;
}
