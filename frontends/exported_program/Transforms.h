// The calls with which an exported program begins and ends what a transform of
// functions (torch.vmap) does.

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

  /// What "torch._functorch.predispatch.`name`" gives. What cannot be imported
  /// is recorded, and gives an unknown value.
  aten::Value run(llvm::StringRef name, llvm::ArrayRef<aten::Value> arguments);

  /// Whether an operator that is called now would draw numbers for each sample
  /// of a region: that is recorded.
  bool refusesToDraw(llvm::StringRef name, const aten::Keywords &keywords);

private:
  aten::Context &context;
  int64_t depth = 0; // of regions of torch.vmap
};

} // namespace polyrank::frontends::exported_program
