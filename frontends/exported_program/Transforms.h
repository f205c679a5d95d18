// The calls with which an exported program begins and ends a function transform
// (torch.vmap).

#pragma once

#include "frontends/aten/Operators.h"

namespace polyrank::frontends::exported_program {

/// From torch 2.13 on, a model that uses torch.vmap has its calls in the graph:
///
/// ```
/// _vmap_increment_nesting(8, 'error')   # level 1 begins
/// a = _add_batch_dim(x, 0, 1)
/// b = aten.sum.default(a)               # of one sample, as far as it sees
/// y = _remove_batch_dim(b, 1, 8, 0)
/// _vmap_decrement_nesting()
/// ```
class Transforms {
public:
  explicit Transforms(aten::Context &context) : context(context) {}

  /// Returns the result of "torch._functorch.predispatch.`name`". What cannot
  /// be imported is recorded, and the result is unknown.
  aten::Value run(llvm::StringRef name, llvm::ArrayRef<aten::Value> arguments);

  /// Returns true, and records a failure, if the operator would draw random
  /// numbers for each sample of a region of torch.vmap.
  bool refusesToDraw(llvm::StringRef name, const aten::Keywords &keywords);

private:
  aten::Context &context;
  int64_t depth = 0; // of regions of torch.vmap
};

} // namespace polyrank::frontends::exported_program
