// Advice for operators that the table lacks.

#include "frontends/aten/Batched.h"
#include "frontends/aten/Call.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace polyrank::frontends::aten {

StringRef explainUnsupported(StringRef name) {
  constexpr StringRef dynamic =
      ": the shape of its result depends on values, and all shapes are known "
      "when a model is compiled; keep all elements and weigh those that do "
      "not count by 0 (torch.where), or do it before the data is given";
  constexpr StringRef before = "; compute it before the data is given";
  constexpr StringRef quantized =
      "; train the model before it is quantised, and export that";
  if (name.starts_with("quantized::") || name.contains("quantize"))
    return quantized;
  if (name.starts_with("torchvision::"))
    return "; it is no operator of PyTorch itself, and has no place in the "
           "model that is trained here";
  if (name == "aten::_make_dual" || name == "aten::_unpack_dual")
    return explainRegion(); // from torch.func.jvp
  return StringSwitch<StringRef>(name)
      .Cases({"aten::unique", "aten::_unique2", "aten::unique_consecutive",
              "aten::unique_dim"},
             dynamic)
      .Cases({"aten::istft", "aten::fft_hfft", "aten::fft_ihfft"}, before)
      .Cases({"aten::max_pool2d_with_indices", "aten::max_pool1d_with_indices",
              "aten::adaptive_max_pool2d"},
             "; leave return_indices out, or pool to a fixed size with "
             "max_pool2d")
      .Case("prim::device",
            " of what is no tensor; a model with packed sequences "
            "(pack_padded_sequence) is to be traced, not scripted")
      .Case("aten::as_strided",
            "; write it with view, permute, expand and unfold")
      .Default("");
}

/// Operators that PyTorch 2.13, tested with its own sample inputs, decomposes
/// into operators of the table.
static constexpr StringRef decomposed =
    "_safe_softmax addr alpha_dropout aminmax atleast_1d atleast_2d "
    "atleast_3d block_diag cartesian_prod channel_shuffle cross "
    "cumulative_trapezoid deg2rad diag_embed diagflat dsplit "
    "expand_copy feature_alpha_dropout fliplr flipud float_power "
    "gradient heaviside hsplit inner isclose kron linalg_cross "
    "linalg_matrix_power linalg_norm linalg_vecdot logaddexp "
    "logaddexp2 logspace max_pool1d_with_indices max_unpool2d "
    "max_unpool3d msort nanmean nansum rad2deg rot90 sinc "
    "special_entr special_ndtr special_xlog1py "
    "split_with_sizes_copy squeeze_copy sum_to_size t_copy take "
    "tensordot transpose_copy trapezoid trapz unfold_copy "
    "unsqueeze_copy vsplit xlogy";

bool isDecomposed(StringRef name) {
  SmallVector<StringRef> names;
  decomposed.split(names, ' ');
  return name.consume_front("aten::") && is_contained(names, name);
}

} // namespace polyrank::frontends::aten
