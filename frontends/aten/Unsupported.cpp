// What to do instead of operators that the table lacks.

#include "frontends/aten/Call.h"
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
  return StringSwitch<StringRef>(name)
      .Cases({"aten::unique", "aten::_unique2", "aten::unique_consecutive",
              "aten::masked_select", "aten::unique_dim"},
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

} // namespace polyrank::frontends::aten
