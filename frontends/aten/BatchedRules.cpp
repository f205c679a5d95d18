// The operators that have a rule inside a region of torch.vmap.

#include "frontends/aten/BatchedCall.h"

using namespace mlir;

namespace polyrank::frontends::aten {

/// Elementwise operators, and those whose dim arguments are shifted: aligned
/// operands broadcast, and the hidden dims are ordinary leading dims.
static constexpr StringRef ofBroadcast[] = {
    // Arithmetic.
    "add sub subtract rsub mul multiply div divide true_divide floor_divide "
    "remainder fmod pow neg negative abs absolute sign sgn square sqrt rsqrt "
    "reciprocal exp exp2 expm1 log log2 log10 log1p ceil floor round trunc fix "
    "frac addcmul addcdiv lerp atan2 arctan2 positive nan_to_num",
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos "
    "arctan arcsinh arccosh arctanh erf erfc logit",
    // Comparisons and choices.
    "eq ne not_equal lt less le less_equal gt greater ge greater_equal isnan "
    "isinf isfinite isposinf isneginf logical_and logical_or logical_xor "
    "logical_not bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ "
    "__xor__ __iand__ __ior__ __ixor__ masked_fill clamp clamp_min clamp_max "
    "clip maximum minimum",
    // Activations.
    "relu relu6 sigmoid silu gelu mish elu celu selu leaky_relu hardtanh "
    "hardsigmoid hardswish hardshrink softshrink softplus log_sigmoid "
    "threshold glu softmax _softmax log_softmax _log_softmax",
    // The same elements, or others of the same shape.
    "clone contiguous detach alias alias_copy detach_copy lift_fresh "
    "lift_fresh_copy _to_copy cpu cuda pin_memory requires_grad_ resolve_conj "
    "resolve_neg copy fill zero zeros_like ones_like full_like empty_like",
    // Dropouts that are off; others are refused.
    "dropout feature_dropout",
    // Operators with dim arguments.
    "cumsum cumprod logcumsumexp flip sort argsort topk kthvalue renorm "
    "transpose swapdims swapaxes movedim moveaxis unsqueeze unflatten select "
    "slice narrow split split_with_sizes unsafe_split unsafe_split_with_sizes "
    "chunk unsafe_chunk tensor_split unbind unfold cosine_similarity",
    // Operators on the last dims.
    "mT mH matrix_H adjoint tril triu one_hot pairwise_distance inverse "
    "linalg_inv det linalg_det matrix_exp linalg_matrix_exp constant_pad_nd "
    "pad pixel_shuffle pixel_unshuffle"};

/// Operators that do not broadcast, so all operands get all hidden dims.
static constexpr StringRef ofWhole =
    "cat concat concatenate stack gather take_along_dim scatter scatter_add "
    "scatter_reduce select_scatter slice_scatter diff cdist";

static constexpr StringRef ofReductions =
    "sum mean prod amax amin argmax argmin any all _is_all_true _is_any_true "
    "count_nonzero logsumexp norm linalg_vector_norm std var std_mean var_mean "
    "median nanmedian";

static constexpr StringRef ofBatches =
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d group_norm";

static constexpr StringRef ofLosses =
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div soft_margin_loss "
    "poisson_nll_loss hinge_embedding_loss";

const llvm::StringMap<BatchedCall::Entry> &BatchedCall::rules() {
  static const auto *table = [] {
    auto *rules = new llvm::StringMap<Entry>();
    auto add = [&](StringRef names, Rule rule, bool mayWrite = false) {
      SmallVector<StringRef> each;
      names.split(each, ' ', -1, /*KeepEmpty=*/false);
      for (StringRef name : each) {
        bool isNew = rules->try_emplace(name, Entry{rule, mayWrite}).second;
        assert(isNew && "an operator has one rule");
        (void)isNew;
      }
    };
    for (StringRef names : ofBroadcast)
      add(names, &BatchedCall::broadcast, /*mayWrite=*/true);
    add(ofWhole, &BatchedCall::whole, /*mayWrite=*/true);
    add("index_add index_copy index_fill", &BatchedCall::wholeAlongIndex,
        /*mayWrite=*/true);
    add("to type_as", &BatchedCall::likeFirst);
    add(ofReductions, &BatchedCall::reduce);
    add("max min", &BatchedCall::chooseExtremum);
    add("where", &BatchedCall::chooseWhere);
    add(ofBatches, &BatchedCall::folded);
    add(ofLosses, &BatchedCall::loss);

    add("view reshape _unsafe_view expand broadcast_to new_zeros new_ones "
        "new_full new_empty",
        &BatchedCall::withShape);
    add("view_as reshape_as expand_as", &BatchedCall::withShapeOf);
    add("flatten ravel", &BatchedCall::flatten);
    add("squeeze", &BatchedCall::squeeze);
    add("permute", &BatchedCall::permute);
    add("numpy_T", &BatchedCall::reverseDims);
    add("t", &BatchedCall::transposeMatrix);
    add("broadcast_tensors", &BatchedCall::broadcastTensors);
    add("roll", &BatchedCall::roll);
    add("repeat tile", &BatchedCall::repeat);
    add("repeat_interleave", &BatchedCall::repeatInterleave);
    add("size sym_size dim numel sym_numel is_floating_point is_complex",
        &BatchedCall::property);
    add("_assert_tensor_metadata _assert_async", &BatchedCall::nothing);

    add("matmul mm bmm mv dot vdot", &BatchedCall::product);
    add("linear", &BatchedCall::linear);
    add("addmm baddbmm", &BatchedCall::addProduct);
    add("outer ger", &BatchedCall::outer);
    add("einsum", &BatchedCall::einsum);
    add("scaled_dot_product_attention", &BatchedCall::attention);
    add("layer_norm rms_norm", &BatchedCall::normalize);
    add("cross_entropy_loss nll_loss nll_loss_nd nll_loss2d",
        &BatchedCall::crossEntropy);
    add("embedding", &BatchedCall::embedding);
    add("index", &BatchedCall::index);
    add("index_select", &BatchedCall::indexSelect);
    return rules;
  }();
  return *table;
}

} // namespace polyrank::frontends::aten
