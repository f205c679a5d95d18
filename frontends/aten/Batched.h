// Tensors inside of a region of torch.vmap.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// torch.vmap calls a function of one sample with all samples at once. What the
/// function sees is a tensor without the dim over which it is mapped; that dim
/// is *hidden*, one for each level of vmap (they lie in each other) at which
/// the tensor was batched. An operator must do for each index of the hidden
/// dims what it does for a tensor that does not have them.
///
/// The hidden dims are kept in front of the others, the outer level first:
///
/// ```
/// x                         # [8, 5, 4]
/// _add_batch_dim(x, 1, 1)   # level 1 has 5: seen as [8, 4], held as [5, 8, 4]
/// ```
///
/// No operator but those of `callBatched` looks inside: what has no rule for it
/// cannot take it for a tensor by mistake.
struct Batched : Object {
  TensorRef tensor;
  llvm::SmallVector<int64_t, 2> levels; // of the hidden dims, ascending

  Batched(TensorRef tensor, llvm::ArrayRef<int64_t> levels)
      : tensor(std::move(tensor)), levels(levels) {}

  /// A batched tensor, or a tensor where there are no levels.
  static Value of(TensorRef tensor, llvm::ArrayRef<int64_t> levels);

  int64_t numHidden() const { return static_cast<int64_t>(levels.size()); }
  /// As the function sees it.
  Shape getShape() const;
  int64_t getRank() const { return tensor->getRank() - numHidden(); }
};

/// The batched tensor that `value` is, or null.
std::shared_ptr<Batched> asBatched(const Value &value);
/// Returns true for a batched tensor and for a list that holds one.
bool hasBatched(const Value &value);
/// The tensor that `value` is or, with its hidden dims, holds; else null.
TensorRef heldTensor(const Value &value);

/// The calls with which a region takes a tensor in and gives it out: dim `dim`
/// of `x` is hidden as that of `level`, and the hidden dim of `level` is dim
/// `dim` again. What does not depend on the level is repeated `size` times.
/// They record what is wrong as `call` does.
/// @{
Value addBatchDim(Context &context, const Value &x, int64_t dim, int64_t level);
Value removeBatchDim(Context &context, const Value &x, int64_t level,
                     int64_t size, int64_t dim);
/// @}

/// Calls an operator of which an argument is batched: `arguments` are those of
/// `schema`. As `call`, it records what cannot be imported and returns
/// `Value::unknown()`.
Value callBatched(Context &context, llvm::StringRef name, const Schema &schema,
                  std::vector<Value> arguments);

/// The way out of a region, after what is wrong in it: "; export .. again".
llvm::StringRef explainRegion();

} // namespace polyrank::frontends::aten
