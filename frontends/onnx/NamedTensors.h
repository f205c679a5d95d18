// The tensors of a state_dict that is given beside a model: `--params`.

#pragma once

#include <deque>

#include "frontends/onnx/Parameters.h"

namespace polyrank::frontends::onnx {

/// The contents of a safetensors file, by name. Its elements are read like
/// those of the model's external data.
struct NamedTensors {
  std::string path;
  std::deque<MadeTensor> tensors; // sorted by name
  /// Names of tensors of a type that ONNX lacks, with the type: "w (F8_E4M3)".
  std::vector<std::string> unreadable;
};

/// Opens the safetensors file at `path` and makes it one of the model's files.
/// Errors begin with the path.
Result<NamedTensors> openNamedTensors(Model &model, const std::string &path);

/// Returns true if `stored` has the elements of `named` or, with `transposed`,
/// of its transpose: exactly, rounded to its own type, or rounded to float16 or
/// bfloat16 in between, as in a model that was once stored in those. Both are
/// floats. A few elements are compared first; equal tensors are read once, in
/// pieces. Returns false if one cannot be read.
bool isCopyOf(const Model &model, const StoredTensor &stored,
              const StoredTensor &named, bool transposed);

} // namespace polyrank::frontends::onnx
