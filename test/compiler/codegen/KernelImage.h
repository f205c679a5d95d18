// The shared object of a CPU's kernels, loaded into this process.

#pragma once

#include <memory>
#include <string>

#include "compiler/target/Target.h"
#include "support/Result.h"

namespace polyrank::codegen {

class KernelImage {
public:
  /// Takes the buffers of arguments, then of results, and items [begin, end).
  using Kernel = void (*)(void *const *buffers, int64_t begin, int64_t end);

  static Result<std::unique_ptr<KernelImage>>
  load(const target::CompiledKernels &kernels);
  ~KernelImage();
  KernelImage(const KernelImage &) = delete;

  /// The function of a kernel that was compiled into the image.
  Kernel find(llvm::StringRef symbol) const { return functions.lookup(symbol); }
  /// The number of items of a kernel.
  static int64_t getRange(rank::KernelOp kernel);

private:
  KernelImage() = default;

  int file = -1;
  void *library = nullptr;
  llvm::StringMap<Kernel> functions;
};

} // namespace polyrank::codegen
