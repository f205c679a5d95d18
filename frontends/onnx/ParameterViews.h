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

/// Reads the floats; those of a `transposed` matrix in the other orientation.
/// Returns false if the file cannot be read.
bool loadFloats(const Model &model, const StoredTensor &tensor, bool transposed,
                StoredFloats &into);

/// Maps each element of a view to an element of its parameter.
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
  /// `outer` has the dims of the constant with strides in the block, `inner`
  /// the dims of the block with strides in the parameter; the last dim comes
  /// first.
  llvm::SmallVector<Dim> outer, inner;
  int64_t start = 0;
};

/// Enumerates the shapes of all views from a tensor of dims `from` to one of
/// dims `to`, with their blocks at the origin: first the whole tensor with its
/// dims in any order (up to four), then blocks that are cut along dims that
/// stay dims, or along one. Any dim in `repeated` may be a repeated one.
std::vector<Expression> enumerateViews(size_t parameter,
                                       llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to,
                                       llvm::ArrayRef<int64_t> repeated);

/// Moves the block of `view` to `starts`; returns false if it then exceeds the
/// tensor.
bool moveTo(Expression &view, llvm::ArrayRef<int64_t> starts,
            llvm::ArrayRef<int64_t> from);

/// The multi-index of element number `element`.
std::vector<int64_t> unravel(int64_t element, llvm::ArrayRef<int64_t> dims);

} // namespace polyrank::frontends::onnx
