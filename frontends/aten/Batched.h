// Tensors inside a region of torch.vmap.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// torch.vmap calls a function written for one sample with all samples at once.
/// The function sees a tensor without the dim over which it is mapped. That dim
/// is *hidden*. A tensor has one hidden dim for each level of (nested) vmap at
/// which it was batched. An operator must compute, for each index of the hidden
/// dims, what it computes for a tensor without them.
///
/// The hidden dims come before the others, those of outer levels first:
///
/// ```
/// x                         # [8, 5, 4]
/// _add_batch_dim(x, 1, 1)   # level 1 has 5: seen as [8, 4], held as [5, 8, 4]
/// ```
///
/// Only `callBatched` and its rules look inside, so an operator without a rule
/// cannot mistake a batched tensor for a plain one.
struct Batched : Object {
  TensorRef tensor;
  llvm::SmallVector<int64_t, 2> levels; // of the hidden dims, ascending

  Batched(TensorRef tensor, llvm::ArrayRef<int64_t> levels)
      : tensor(std::move(tensor)), levels(levels) {}

  /// Returns a batched tensor, or `tensor` itself if there are no levels.
  static Value of(TensorRef tensor, llvm::ArrayRef<int64_t> levels);

  int64_t numHidden() const { return static_cast<int64_t>(levels.size()); }
  /// The shape that the function sees.
  Shape getShape() const;
  int64_t getRank() const { return tensor->getRank() - numHidden(); }
};

/// Returns `value` as a batched tensor, or null if it is none.
std::shared_ptr<Batched> asBatched(const Value &value);
/// Returns true for a batched tensor and for a list that holds one.
bool hasBatched(const Value &value);
/// Returns the tensor that `value` is, or the tensor with hidden dims that a
/// batched `value` holds; null for anything else.
TensorRef heldTensor(const Value &value);

/// The calls by which a tensor enters and leaves a region. `addBatchDim` hides
/// dim `dim` of `x` as the dim of `level`; `removeBatchDim` makes the hidden
/// dim of `level` dim `dim` again. A value that does not depend on the level is
/// repeated `size` times. Failures are recorded as `call` does.
/// @{
Value addBatchDim(Context &context, const Value &x, int64_t dim, int64_t level);
Value removeBatchDim(Context &context, const Value &x, int64_t level,
                     int64_t size, int64_t dim);
/// @}

/// Calls an operator with at least one batched argument; `arguments` are bound
/// to `schema`. Like `call`, it records what cannot be imported and returns
/// `Value::unknown()`.
Value callBatched(Context &context, llvm::StringRef name, const Schema &schema,
                  std::vector<Value> arguments);

/// Advice that is appended to an error in a region: "; export .. again".
llvm::StringRef explainRegion();

} // namespace polyrank::frontends::aten
