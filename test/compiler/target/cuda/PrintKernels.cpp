// Prints the code of the kernels of a module for the cuda target: PTX, or with
// --llvm the LLVM IR from which it is selected.

#include "compiler/target/cuda/CudaTarget.h"
#include "compiler/target/cuda/LowerToLlvm.h"
#include "compiler/target/math/ExpandMath.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank;

static llvm::cl::opt<std::string> input(llvm::cl::Positional,
                                        llvm::cl::init("-"));
static llvm::cl::opt<std::string> architecture("arch", llvm::cl::init("sm_80"));
static llvm::cl::opt<bool> asLlvm("llvm");

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv);
  DialectRegistry registry;
  registerDialects(registry);
  cuda::registerTarget(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  cuda::loadDialects(&context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(input, &context);
  if (!module)
    return 1;
  RewritePatternSet patterns(&context);
  target::populateMathExpansions(patterns);
  FrozenRewritePatternSet expansions(std::move(patterns));
  for (auto kernel : module->getOps<rank::KernelOp>()) {
    llvm::LLVMContext llvmContext;
    auto lowered = cuda::lowerToLlvm(kernel, llvmContext, expansions);
    if (failed(lowered))
      return 1;
    if (asLlvm)
      lowered->module->print(llvm::outs(), nullptr);
    else
      llvm::outs() << cuda::writePtx(*lowered, architecture);
  }
  return 0;
}
