// Views of a parameter: blocks of it, permuted, reshaped and repeated.

#pragma once

#include <vector>

#include "frontends/onnx/Expression.h"
#include "frontends/onnx/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::frontends::onnx {

/// The floats of a stored tensor.
struct StoredFloats {
  std::vector<int64_t> dims;
  std::vector<float> values; // row-major
};

/// Reads them; a `transposed` matrix in the other orientation. False where the
/// file cannot be read.
bool loadFloats(const Model &model, const StoredTensor &tensor, bool transposed,
                StoredFloats &into);

/// Which element of its parameter each element of a view is.
class ViewMap {
public:
  /// `from` are the dims of the parameter, `to` those of the constant.
  ViewMap(const Expression &view, llvm::ArrayRef<int64_t> from,
          llvm::ArrayRef<int64_t> to);
  int64_t operator()(int64_t element) const;

private:
  struct Dim {
    int64_t size, stride;
  };
  /// Of the constant with strides in the block, and of the block with strides
  /// in the parameter; last dim first.
  llvm::SmallVector<Dim> outer, inner;
  int64_t start = 0;
};

/// All shapes of views from a tensor of dims `from` to one of dims `to`, with
/// their blocks at the front: first whole ones in any order of dims (of up to
/// four), then blocks that are cut along dims which stay dims, or along one.
/// Every dim of `repeated` may be one that repeats.
std::vector<Expression> enumerateViews(size_t parameter,
                                       llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to,
                                       llvm::ArrayRef<int64_t> repeated);

/// `view` with its block moved to `starts`; false where it leaves the tensor.
bool moveTo(Expression &view, llvm::ArrayRef<int64_t> starts,
            llvm::ArrayRef<int64_t> from);

/// The multi-index of an element.
std::vector<int64_t> unravel(int64_t element, llvm::ArrayRef<int64_t> dims);

} // namespace polyrank::frontends::onnx
