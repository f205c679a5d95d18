// The tensors of a state_dict that stands beside a model: `--params`.

#pragma once

#include <deque>

#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// What a safetensors file holds, by name. Its elements are read like those of
/// the model's external data.
struct NamedTensors {
  std::string path;
  std::deque<MadeTensor> tensors; // in the order of their names
  /// Names of tensors whose type ONNX has not, with it: "w (F8_E4M3)".
  std::vector<std::string> unreadable;
};

/// Opens the safetensors file at `path` and makes it one of the model's files.
/// Errors begin with the path.
Result<NamedTensors> openNamedTensors(Model &model, const std::string &path);

/// Whether `stored` has the elements of `named`, or with `transposed`, of
/// matrices, those of its transpose: exactly, rounded to its own type, or
/// rounded to float16 or bfloat16 on the way, as a model is that was once
/// stored in them. Both are floats. A few elements are compared first; equal
/// tensors are read once, in pieces. False where one cannot be read.
bool isCopyOf(const Model &model, const StoredTensor &stored,
              const StoredTensor &named, bool transposed);

} // namespace polyrank::frontends::onnx
