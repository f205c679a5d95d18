// Runs a function of graph ops twice: by each op's `evaluate`, and as kernels.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "test/compiler/codegen/KernelImage.h"

namespace polyrank::codegen {

/// A dense tensor in the form that kernels see.
using Bytes = std::vector<unsigned char>;

/// Returns the bytes of a tensor: floats rounded to their type, booleans as
/// bytes.
Bytes toBytes(const graph::Tensor &tensor);
graph::Tensor fromBytes(const Bytes &bytes, mlir::RankedTensorType type);
/// Returns random floats or integers in (low, high), from a fixed generator.
graph::Tensor randomTensor(mlir::RankedTensorType type, double low, double high,
                           unsigned seed);

/// A compiled function of graph ops.
class KernelRunner {
public:
  /// `text` has `func.func @main`. Fails the test if it is invalid.
  explicit KernelRunner(const std::string &text, bool fuse = true,
                        const std::string &machine = "native");

  mlir::FunctionType getType() const { return type; }
  /// The number of kernels of the function, which several launches may share.
  int64_t getNumKernels() const { return kernels.kernels.size(); }
  int64_t getNumLaunches() const { return numLaunches; }
  rank::KernelOp getKernel(unsigned index);
  const target::CompiledKernels &getCompiled() const { return kernels; }

  /// Evaluates each op's reference implementation.
  std::vector<graph::Tensor>
  evaluate(const std::vector<graph::Tensor> &inputs,
           graph::Rounding rounding = graph::Rounding::Exact);
  /// Runs the kernels, each in pieces of `piece` items (not necessarily a
  /// multiple of its grain), from the last piece to the first if `backwards`.
  /// Fails the test if a kernel writes outside its results or omits a part.
  std::vector<Bytes> run(const std::vector<Bytes> &inputs,
                         int64_t piece = 1 << 30, bool backwards = false);
  /// The same, but each result takes the buffer of the first argument that it
  /// may take.
  std::vector<Bytes> runInPlace(const std::vector<Bytes> &inputs);
  /// Milliseconds of the fastest of `repeats` runs of all launches.
  double time(const std::vector<Bytes> &inputs, int repeats);

private:
  void load();
  std::vector<Bytes> run(const std::vector<Bytes> &inputs, int64_t piece,
                         bool backwards, bool inPlace);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source, module;
  mlir::FunctionType type;
  target::CompiledKernels kernels;
  int64_t numLaunches = 0;
  std::unique_ptr<KernelImage> image;
  llvm::StringMap<int64_t> ranges;
};

} // namespace polyrank::codegen
