// The kernels of a plan, loaded as native code.

#pragma once

#include "runtime/plan/plan_generated.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace polyrank::runtime {

/// Runs iterations [begin, end) of a kernel (plan.fbs, Launch).
using KernelFunction = void (*)(void *const *buffers, int64_t begin,
                                int64_t end);

/// Owns the loaded image of the kernels; kernel i of the plan is `function(i)`.
class KernelModule {
public:
  /// Fails if this CPU lacks what the image requires. The error says so of "the
  /// plan's kernels", with which its sentence begins.
  static Result<void> checkRequirements(const plan::Image &image);
  /// Checks the CPU's features and the image, copies it to a sealed memfd, so
  /// that nobody can change what was checked, and loads it from there.
  static Result<KernelModule> load(const plan::Image &image);

  KernelFunction function(uint32_t kernel) const { return functions[kernel]; }

private:
  struct Unload {
    void operator()(void *handle) const;
  };
  struct Close {
    void operator()(int *file) const;
  };
  // The descriptor stays open as long as the image is loaded: the loader
  // identifies an image by its path, /proc/self/fd/N, and would mistake a later
  // image with the same number for this one.
  std::unique_ptr<int, Close> file;
  std::unique_ptr<void, Unload> handle;
  std::vector<KernelFunction> functions;
};

} // namespace polyrank::runtime
